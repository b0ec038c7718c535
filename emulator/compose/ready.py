"""Says that a host answers: the ready file for programs, a small table for people. Starts nothing."""

import contextlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from emulator.compose.errors import SurroundingsWrong
from emulator.compose.state import owner_of

_LARGEST = 64 * 1024


@dataclass(frozen=True, slots=True)
class ReadyReport:
    """Where everything is: `api` to `management` are origins, `storage` names kind and place."""

    pid: int
    api: str
    ingress: str
    ingress_tls: str
    management: str
    management_token_file: Path
    ca: Path
    state_dir: Path
    storage: str

    def document(self) -> dict[str, object]:
        """The content of the ready file."""
        return {
            "pid": self.pid,
            "api": self.api,
            "ingress": self.ingress,
            "ingressTls": self.ingress_tls,
            "management": self.management,
            "managementTokenFile": str(self.management_token_file),
            "ca": str(self.ca),
            "stateDir": str(self.state_dir),
            "storage": self.storage,
        }

    def table(self, start_s: float) -> str:
        """Lines for a terminal; `start_s` is the time from start to ready."""
        from emulator.compose.support import start_line  # the Forms are read while workerd starts, not before

        rows = {
            "Host API": self.api,
            "Workers": self.ingress,
            "TLS": self.ingress_tls,
            "management": f"{self.management} (token in {self.management_token_file})",
            "CA": str(self.ca),
            "storage": self.storage,
            "not built": start_line(),
            "ready": f"after {start_s:.2f} s, process {self.pid}",
        }
        width = max(map(len, rows))
        return "\n".join(f"  {name:<{width}}  {value}" for name, value in rows.items())


def check_place(path: Path) -> None:
    """Refuse a ready file that could not be written, before anything is started. Raises `SurroundingsWrong`."""
    if path.is_dir():
        raise _unwritable(path, "it is a directory")
    if not path.absolute().parent.is_dir():
        raise _unwritable(path, "its directory does not exist")
    try:
        if os.path.lexists(path) and _document(path) is None:
            raise _unwritable(path, "the file there is no ready file, remove it or name another")
        draft = _draft(path)
        draft.touch()
        draft.unlink()
    except OSError as error:
        raise _unwritable(path, error.strerror or "unknown reason") from error


def remove_earlier(path: Path) -> None:
    """Remove from a checked place what an earlier host left, whose ports are dead, before the start can fail.

    The file of a host that still runs stays until this one is ready: this start may be refused because of that one.
    Raises `SurroundingsWrong`.
    """
    try:
        document = _document(path)
        if document is not None and owner_of(Path(str(document["stateDir"]))) != document["pid"]:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise _unwritable(path, error.strerror or "unknown reason") from error


def write_ready_file(path: Path, report: ReadyReport) -> None:
    """Write atomically: whoever sees the file sees all of it. Raises `SurroundingsWrong`."""
    try:
        draft = _draft(path)
        draft.write_text(json.dumps(report.document()) + "\n")
        draft.replace(path)
    except OSError as error:
        raise _unwritable(path, error.strerror or "unknown reason") from error


def remove_ready_file(path: Path) -> None:
    """Remove the file unless somebody else has put another in its place."""
    with contextlib.suppress(OSError):
        document = _document(path)
        if document is not None and document["pid"] == os.getpid():
            path.unlink()


def _document(path: Path) -> dict[str, object] | None:
    """The content of a ready file, whose `pid` is a number; none for any other file. Raises OSError."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        content = file.read(_LARGEST)
    try:
        document = json.loads(content)
    except ValueError:
        return None
    is_ours = isinstance(document, dict) and document.keys() >= {"pid", "api", "managementTokenFile", "stateDir"}
    return document if is_ours and isinstance(document["pid"], int) else None


def _draft(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}")


def _unwritable(path: Path, why: str) -> SurroundingsWrong:
    return SurroundingsWrong(f"cannot write the ready file {path}: {why}")
