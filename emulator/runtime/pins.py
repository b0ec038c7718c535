"""What is pinned (workerd, the parser) and where it lies once installed. Reads only the carried npm files.

The carried files are those of the repository's root: the lock names exact versions and their hashes, and holds
no download address.
"""

import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from emulator.runtime.unusable import UnsupportedPlatform

CARRIED = Path(__file__).parent / "npm"
CARRIED_FILES = {"package.json": "package.json", "package-lock.json": "package-lock.json", "npmrc": ".npmrc"}
"""Carried file -> its name in a directory where npm runs."""

PROCESSORS = {"x86_64": "64", "amd64": "64", "x64": "64", "arm64": "arm64", "aarch64": "arm64"}
SYSTEMS = {"linux": "linux", "darwin": "darwin"}


@dataclass(frozen=True, slots=True)
class Pins:
    """The exact versions; `workerd` is its npm version, `workerd_date` what `workerd --version` says."""

    workerd: str
    workerd_date: str
    parser: str
    lock_digest: str


@cache
def read_pins() -> Pins:
    """The pins of this takohost, from its carried npm files."""
    wanted = json.loads((CARRIED / "package.json").read_bytes())["dependencies"]
    day = wanted["workerd"].split(".")[1]
    return Pins(
        workerd=wanted["workerd"],
        workerd_date=f"{day[:4]}-{day[4:6]}-{day[6:]}",
        parser=wanted["meriyah"],
        lock_digest=hashlib.sha256((CARRIED / "package-lock.json").read_bytes()).hexdigest()[:16],
    )


def workerd_in(modules: Path, system: str | None = None, machine: str | None = None) -> Path:
    """Where a `node_modules` directory holds the program for a platform (default: this machine's).

    Taken from the platform's own package, never from the `workerd` package: that one holds a Node.js launcher
    which only a postinstall script would replace.
    """
    system, machine = system or platform.system(), machine or platform.machine()
    try:
        name = f"workerd-{SYSTEMS[system.lower()]}-{PROCESSORS[machine.lower()]}"
    except KeyError:
        raise UnsupportedPlatform(system, machine) from None
    return modules / "@cloudflare" / name / "bin" / "workerd"


def parser_in(modules: Path) -> Path:
    """Where a `node_modules` directory holds the parser, one ES module without imports."""
    return modules / "meriyah" / "dist" / "meriyah.mjs"


def user_cache(env: Mapping[str, str]) -> Path:
    """takohost's directory in the user's cache; it need not exist."""
    base = env.get("XDG_CACHE_HOME", "")
    home = Path(env["HOME"]) if env.get("HOME") else Path.home()
    return (Path(base) if Path(base).is_absolute() else home / ".cache") / "takohost"


def installed_modules(env: Mapping[str, str]) -> Path:
    """The `node_modules` of the runtime installed in the user's cache for these exact pins."""
    return user_cache(env) / "runtime" / read_pins().lock_digest / "node_modules"
