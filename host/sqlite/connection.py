"""A connection on apsw in the shape aiosqlite drives, so that a whole unit of work is one thread hop.

Owns pragmas, the busy handler and the start-up check of SQLite's JSON rules. Knows no table and no queue.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import aiosqlite
import apsw

from host.sqlite.confinement import ConfinedConnection
from host.sqlite.errors import DatabaseUnusable, translated

T = TypeVar("T")

BUSY_DEADLINE_S = 10.0
_BUSY_POLL_S = 0.0005  # SQLite's own back-off starves a second writer
_OLDEST_SQLITE = (3, 45, 0)
_JSON_DEPTH = 1000


class _Outcome(Generic[T]):
    """The value of a unit of work, handed back through the cursor interface."""

    def __init__(self, value: T) -> None:
        self._value = value

    def fetchall(self) -> T:
        return self._value


class ThinConnection:
    """Stands where aiosqlite expects a `sqlite3.Connection`; `execute` takes a function instead of SQL text."""

    def __init__(self, path: Path, read_only: bool) -> None:
        with translated():
            flags = apsw.SQLITE_OPEN_READWRITE | (0 if read_only else apsw.SQLITE_OPEN_CREATE)
            self._apsw = ConfinedConnection(str(path), flags=flags, statementcachesize=200)
            self._apsw.set_busy_handler(_BusyWait())
            self._apsw.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)  # plans go by the text: no value makes them anew
            if read_only:
                self._apsw.execute("PRAGMA query_only = ON")

    def execute(self, work: Callable[[ConfinedConnection], T], parameters: object = ()) -> _Outcome[T]:
        """Run `work` whole in this connection's thread."""
        return _Outcome(work(self._apsw))

    def close(self) -> None:
        self._apsw.close()


class _BusyWait:
    """Polls for the lock until a deadline counted from the first miss of one wait."""

    def __init__(self) -> None:
        self._deadline_s = 0.0

    def __call__(self, earlier_calls: int) -> bool:
        now = time.monotonic()
        if earlier_calls == 0:
            self._deadline_s = now + BUSY_DEADLINE_S
        time.sleep(_BUSY_POLL_S)
        return now < self._deadline_s


def apply_settings(connection: apsw.Connection) -> None:
    """Set what every writer relies on; only for a file that is known to be ours, because WAL marks its header."""
    for setting in (
        "auto_vacuum = INCREMENTAL",  # only before the first table is made
        "journal_mode = WAL",
        "synchronous = FULL",
        "fullfsync = ON",
        "foreign_keys = ON",
        "trusted_schema = OFF",
    ):
        connection.execute(f"PRAGMA {setting}")


async def connect(path: Path, *, read_only: bool) -> aiosqlite.Connection:
    """Open `path` in a thread of its own. Raises `DatabaseError`."""
    connector = cast(Any, lambda: ThinConnection(path, read_only))
    return await aiosqlite.Connection(connector, iter_chunk_size=64)


async def run_whole(connection: aiosqlite.Connection, work: Callable[[ConfinedConnection], T]) -> T:
    """Run `work` in the connection's thread, in one hop, and return its value."""
    return cast(T, await connection.execute_fetchall(cast(Any, work), ()))


def check_json_rules(connection: apsw.Connection) -> None:
    """Refuse a SQLite whose JSON functions decide otherwise than D1's (RS-63). Raises `DatabaseUnusable`."""
    version = tuple(int(part) for part in apsw.sqlite_lib_version().split("."))
    if version < _OLDEST_SQLITE:
        raise DatabaseUnusable(f"SQLite {apsw.sqlite_lib_version()} is too old: 3.45 or newer is needed")
    deepest, too_deep = ("[" * depth + "]" * depth for depth in (_JSON_DEPTH, _JSON_DEPTH + 1))
    with translated():
        answers = connection.execute(
            "SELECT json_valid(?), json_valid(?), json_valid('{a:1}'), json_valid('[1,]')", (deepest, too_deep)
        ).fetchone()
    if answers != (1, 0, 0, 0):
        raise DatabaseUnusable("this SQLite's json_valid differs from D1's: install the pinned apsw")
