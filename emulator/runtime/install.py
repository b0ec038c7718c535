"""Fetches the pinned workerd and parser into the user's cache, whole or not at all. Knows no order of search.

The result lies in `<user cache>/takohost/runtime/<digest of the lock>/`. It is built in a directory beside it and
renamed into place, under a lock, so two installs at once do the work once and a killed one leaves nothing usable.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from emulator.runtime.binary import check_workerd, glibc_version
from emulator.runtime.locate import OVERRIDE, Runtime, locate_runtime, parser_version
from emulator.runtime.npm_command import run_npm_ci
from emulator.runtime.pins import CARRIED, CARRIED_FILES, installed_modules, parser_in, read_pins, workerd_in
from emulator.runtime.unusable import InstallFailed, MuslSystem, RuntimeMissing, RuntimeUnusable, WrongVersion

DRAFT_PREFIX = ".draft-"


def obtain_runtime(
    env: Mapping[str, str] = os.environ,
    cwd: Path | None = None,
    announce: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Runtime:
    """The located runtime; installs it first when there is none of the pinned version and none was chosen.

    The install runs inside what `announce` makes: it takes seconds and somebody may be waiting.
    """
    try:
        return locate_runtime(env, cwd)
    except (RuntimeMissing, WrongVersion):
        if env.get(OVERRIDE):
            raise
    with announce():
        install_runtime(env)
    return locate_runtime(env, cwd)


def install_runtime(env: Mapping[str, str] = os.environ) -> Runtime:
    """The runtime in the user's cache, fetched unless it is there already; raises `RuntimeUnusable`."""
    modules = installed_modules(env)
    if not is_complete(modules, env):
        workerd_in(modules)  # refuses a platform without a workerd before anything is fetched
        refuse_musl()
        with install_lock(modules.parent.parent):
            if not is_complete(modules, env):
                replace_install(modules.parent, env)
    return Runtime(workerd_in(modules), parser_in(modules), read_pins().workerd_date)


def is_complete(modules: Path, env: Mapping[str, str]) -> bool:
    """Whether the cache holds both parts in their pinned versions, workerd runnable."""
    try:
        check_workerd(workerd_in(modules), env)
    except RuntimeUnusable:
        return False
    return parser_in(modules).is_file() and parser_version(modules) == read_pins().parser


def refuse_musl() -> None:
    """Raise `MuslSystem` on a Linux without glibc, before a large download that could not be used."""
    if os.uname().sysname == "Linux" and glibc_version() is None:
        raise MuslSystem


def replace_install(target: Path, env: Mapping[str, str]) -> None:
    """Build the install beside `target` and rename it there; what was there, and was not whole, goes."""
    for leftover in target.parent.glob(f"{DRAFT_PREFIX}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    draft = Path(tempfile.mkdtemp(prefix=DRAFT_PREFIX, dir=target.parent))
    try:
        for carried, name in CARRIED_FILES.items():
            shutil.copyfile(CARRIED / carried, draft / name)
        run_npm_ci(draft, env)
        check_workerd(workerd_in(draft / "node_modules"), env)
        if target.exists():
            target.rename(draft / "replaced")
        draft.rename(target)
    except OSError as error:
        raise InstallFailed(f"the runtime could not be stored in {target.parent}: {error.strerror}") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    shutil.rmtree(target / "replaced", ignore_errors=True)


@contextmanager
def install_lock(directory: Path) -> Iterator[None]:
    """Hold the only right to install below `directory`; waits for another install to finish."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise InstallFailed(f"the user's cache {directory} cannot be written: {error.strerror}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
