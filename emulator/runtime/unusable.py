"""Why no workerd can be run on this machine: one exception and one sentence per reason. Knows no place to look."""

from pathlib import Path

INSTALL_HINT = "run `takohost install-runtime`"


class RuntimeUnusable(Exception):
    """No usable runtime; `str()` is one line for the user. The command line answers it with exit code 3."""


class RuntimeMissing(RuntimeUnusable):
    """workerd or the parser is nowhere to be found."""


class WrongVersion(RuntimeUnusable):
    """A workerd of another version than the pinned one."""

    def __init__(self, path: Path, found: str, wanted: str) -> None:
        super().__init__(
            f"workerd at {path} is version {found}, but this takohost needs exactly {wanted}; {INSTALL_HINT}"
        )


class WrongArchitecture(RuntimeUnusable):
    """A workerd built for another processor or operating system."""

    def __init__(self, path: Path, built_for: str, machine: str) -> None:
        super().__init__(f"workerd at {path} is built for {built_for}, but this machine is {machine}; {INSTALL_HINT}")


class NotProgram(RuntimeUnusable):
    """A file that is not workerd's own program: a Node.js launcher, an empty or unexecutable file."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(f"{path} is {what}, not the workerd program; {INSTALL_HINT}")


class MuslSystem(RuntimeUnusable):
    """A Linux whose C library is not glibc: there is no workerd for it."""

    def __init__(self) -> None:
        super().__init__(
            "workerd needs glibc, which this system does not have (musl, as on Alpine?); "
            "use a glibc system such as Debian, Ubuntu or Fedora"
        )


class OldGlibc(RuntimeUnusable):
    """A glibc older than workerd was built against. `needed` and `present` are like `2.35`."""

    def __init__(self, path: Path, needed: str, present: str) -> None:
        super().__init__(
            f"workerd at {path} needs glibc {needed} or newer, but this system has {present}; "
            "use a newer release of the operating system"
        )


class UnsupportedPlatform(RuntimeUnusable):
    """An operating system or processor for which there is no workerd."""

    def __init__(self, system: str, machine: str) -> None:
        advice = "; on Windows, run takohost inside WSL2" if system.lower() in {"windows", "win32"} else ""
        super().__init__(f"there is no workerd for {system} on {machine}{advice}")


class InstallFailed(RuntimeUnusable):
    """The runtime could not be fetched."""
