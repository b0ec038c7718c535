"""The state directory: where everything lies, and the lock that gives it to one host. Knows no content."""

import fcntl
import os
from pathlib import Path

from emulator.compose.errors import SurroundingsWrong

_LOCK = "host.lock"


class StateDirectory:
    """A claimed directory, mode 0700. The claim ends with `release` or with the process, however it dies."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def claim(cls, path: Path) -> "StateDirectory":
        """Make or take the directory. Raises `SurroundingsWrong` when it is not ours, not writable or in use."""
        path = path.absolute()
        try:
            _make_own(path)
            lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            reason = error.strerror or "unknown reason"
            raise SurroundingsWrong(f"cannot use the state directory {path}: {reason}") from error
        _take(lock, path)
        path.chmod(0o700)
        os.truncate(lock, 0)
        os.write(lock, f"{os.getpid()}\n".encode())
        return cls(path, lock)

    def release(self) -> None:
        """Give the directory up; the lock file stays, as the mark of a state directory."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    @property
    def control_database(self) -> Path:
        return self.path / "control.sqlite"

    @property
    def emulator_database(self) -> Path:
        return self.path / "emulator.sqlite"

    @property
    def artifacts(self) -> Path:
        return self.path / "artifacts"

    @property
    def code(self) -> Path:
        return self.path / "code"

    @property
    def tls(self) -> Path:
        return self.path / "tls"

    @property
    def clock_file(self) -> Path:
        return self.path / "clock.json"

    @property
    def host_key(self) -> Path:
        return self.path / "host.key"

    @property
    def management_token(self) -> Path:
        return self.path / "management.token"


def _make_own(path: Path) -> None:
    """Create the directory, or see that it is empty or already one of ours."""
    try:
        path.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        entries = {entry.name for entry in path.iterdir()}
        if entries and _LOCK not in entries:
            raise SurroundingsWrong(
                f"{path} is neither empty nor a takohost state directory: choose another with --state-dir"
            ) from None


def _take(lock: int, path: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        owner = os.pread(lock, 32, 0).decode(errors="replace").strip() or "unknown"
        os.close(lock)
        raise SurroundingsWrong(f"the state directory {path} is in use by takohost process {owner}") from error
