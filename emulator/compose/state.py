"""The state directory: where everything lies, and the lock that gives it to one host. Knows no content."""

import fcntl
import os
from pathlib import Path

from emulator.compose.errors import FoundationUnusable, SurroundingsWrong
from host.store.schema import APPLICATION_ID

_LOCK = "host.lock"
_APPLICATION_ID = slice(68, 72)
"""Where a SQLite file says whose it is."""


def owner_of(path: Path) -> int | None:
    """The host process that has claimed the directory and lives; none when nobody has, or nobody says so."""
    try:
        lock = os.open(path / _LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        said = os.pread(lock, 32, 0).strip()
        return int(said) if said.isdigit() else None
    finally:
        os.close(lock)
    return None


class StateDirectory:
    """A claimed directory, mode 0700. The claim ends with `release` or with the process, however it dies.

    It is a lock on the directory and one on a file in it that names the owner: without the file, which somebody may
    remove while a host runs, there is still only one.
    """

    def __init__(self, path: Path, locks: tuple[int, ...]) -> None:
        self.path = path
        self._locks = locks

    @classmethod
    def claim(cls, path: Path) -> "StateDirectory":
        """Make or take the directory. Raises `SurroundingsWrong` when it is not ours, not writable or in use.

        Raises `FoundationUnusable`, nothing changed, when one of the databases of an earlier host is gone.
        """
        path = path.absolute()
        try:
            _make_own(path)
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            reason = error.strerror or "unknown reason"
            raise SurroundingsWrong(f"cannot use the state directory {path}: {reason}") from error
        state = cls(path, (folder, lock))
        state._take()
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
        for lock in self._locks:
            os.close(lock)
        self._locks = ()

    def _take(self) -> None:
        try:
            for lock in self._locks:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = os.pread(self._locks[-1], 32, 0).decode(errors="replace").strip()
            self.release()
            by = f"takohost process {owner}" if owner else f"a takohost process ({_LOCK} was removed meanwhile)"
            raise SurroundingsWrong(f"the state directory {self.path} is in use by {by}") from error

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
    """Create the directory, or see that it is empty or already one of ours, even if its lock file was removed."""
    try:
        path.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        entries = {entry.name for entry in path.iterdir()}
        if entries and _LOCK not in entries and not _holds_control_database(path):
            raise SurroundingsWrong(
                f"{path} is neither empty nor a takohost state directory: choose another with --state-dir"
            ) from None


def _holds_control_database(path: Path) -> bool:
    try:
        with (path / "control.sqlite").open("rb") as file:
            return file.read(_APPLICATION_ID.stop)[_APPLICATION_ID] == APPLICATION_ID.to_bytes(4, "big")
    except OSError:
        return False
