"""The state directory: where everything lies, and the lock that gives it to one host. Knows no content."""

import fcntl
import os
from pathlib import Path

from emulator.compose.errors import FoundationUnusable, SurroundingsWrong

_LOCK = "host.lock"


class StateDirectory:
    """A claimed directory, mode 0700. The claim ends with `release` or with the process, however it dies."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def claim(cls, path: Path) -> "StateDirectory":
        """Make or take the directory. Raises `SurroundingsWrong` when it is not ours, not writable or in use.

        Raises `FoundationUnusable`, nothing changed, when one of the databases of an earlier host is gone.
        """
        path = path.absolute()
        try:
            _make_own(path)
            lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            reason = error.strerror or "unknown reason"
            raise SurroundingsWrong(f"cannot use the state directory {path}: {reason}") from error
        _take(lock, path)
        state = cls(path, lock)
        try:
            state._check_databases()
        except BaseException:
            state.release()
            raise
        path.chmod(0o700)
        os.truncate(lock, 0)
        os.write(lock, f"{os.getpid()}\n".encode())
        return state

    def release(self) -> None:
        """Give the directory up; the lock file stays, as the mark of a state directory."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _check_databases(self) -> None:
        """Refuse one database without the other: the host would make the lost one anew and forget half of itself.

        Key and token are written after both databases; without them a first start was cut short and may go on.
        """
        if not (self.host_key.exists() or self.management_token.exists()):
            return
        databases = (self.control_database, self.emulator_database)
        lost = [path for path in databases if not path.exists() or path.stat().st_size == 0]
        if lost and any(path.exists() for path in databases):
            what = "empty" if lost[0].exists() else "missing"
            raise FoundationUnusable(
                f"{lost[0]} is {what}, the rest of the state is there: restore it or choose another --state-dir"
            )

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
    def files(self) -> Path:
        """Where artifacts lie by digest: `ab/abcd...`, as `emulator.artifacts` lays them down."""
        return self.artifacts / "sha256"

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
