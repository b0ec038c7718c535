"""Finds the pinned workerd and parser on this machine. It never installs anything."""

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from emulator.runtime.binary import check_workerd
from emulator.runtime.pins import installed_modules, parser_in, read_pins, workerd_in
from emulator.runtime.unusable import INSTALL_HINT, RuntimeMissing, RuntimeUnusable

OVERRIDE = "TAKOHOST_WORKERD"
_OVERRIDE_HINT = f"correct or unset {OVERRIDE}"


@dataclass(frozen=True, slots=True)
class Runtime:
    """A usable runtime: the workerd program, the parser's ES module, and workerd's version (a date)."""

    workerd: Path
    parser: Path
    version: str


def locate_runtime(env: Mapping[str, str] = os.environ, cwd: Path | None = None) -> Runtime:
    """The runtime to use, or `RuntimeUnusable` with the reason.

    Looked for in this order: `TAKOHOST_WORKERD` (taken or refused, nothing else is tried), the project's
    node_modules from `cwd` upwards, PATH, the user's cache. A place that holds an unusable workerd is passed
    over; its reason is told when no place holds a usable one.
    """
    workerd = locate_workerd(env, cwd or Path.cwd())
    return Runtime(workerd, locate_parser(env, cwd or Path.cwd(), workerd), read_pins().workerd_date)


def locate_workerd(env: Mapping[str, str], cwd: Path) -> Path:
    """The first usable workerd."""
    if env.get(OVERRIDE):
        chosen = Path(env[OVERRIDE]).absolute()
        if not os.path.exists(chosen):  # noqa: PTH110 - the method raises where we may not look
            raise RuntimeMissing(f"{OVERRIDE} names {chosen}, which does not exist; {_OVERRIDE_HINT}")
        try:
            check_workerd(chosen, env)
        except RuntimeUnusable as reason:
            reason.args = (str(reason).replace(INSTALL_HINT, _OVERRIDE_HINT),)  # an install would change nothing
            raise
        return chosen
    reasons: list[RuntimeUnusable] = []
    for candidate in workerd_candidates(env, cwd):
        try:
            check_workerd(candidate, env)
        except RuntimeUnusable as reason:
            reasons.append(reason)
        else:
            return candidate
    if reasons:
        raise reasons[0]
    raise RuntimeMissing(f"workerd {read_pins().workerd} is not installed; {INSTALL_HINT}")


def workerd_candidates(env: Mapping[str, str], cwd: Path) -> Iterator[Path]:
    """Existing workerd files, the preferred ones first."""
    yield from filter(is_file, map(workerd_in, project_modules(cwd)))
    found = shutil.which("workerd", path=env.get("PATH", ""))
    if found:
        yield Path(found).resolve()
    yield from filter(is_file, [workerd_in(installed_modules(env))])


def locate_parser(env: Mapping[str, str], cwd: Path, workerd: Path) -> Path:
    """The pinned parser: beside workerd, in the project's node_modules, or in the user's cache."""
    beside = [parent for parent in workerd.parents if parent.name == "node_modules"]
    for modules in (*beside, *project_modules(cwd), installed_modules(env)):
        parser = parser_in(modules)
        if is_file(parser) and parser_version(modules) == read_pins().parser:
            return parser
    raise RuntimeMissing(f"the parser meriyah {read_pins().parser} is not installed; {INSTALL_HINT}")


def parser_version(modules: Path) -> str | None:
    """The version that the parser's own package.json states."""
    try:
        stated = json.loads((modules / "meriyah" / "package.json").read_bytes())
    except (OSError, ValueError):
        return None
    return str(stated.get("version")) if isinstance(stated, dict) else None


def is_file(path: Path) -> bool:
    """Whether a file is there to be read; what we may not look at is not there."""
    try:
        return path.is_file()
    except OSError:
        return False


def project_modules(cwd: Path) -> Iterator[Path]:
    """The node_modules directories that Node.js would search from `cwd`, nearest first."""
    for directory in (cwd, *cwd.parents):
        yield directory / "node_modules"
