"""What a unit of work sees of SQLite: statements inside a transaction that somebody else begins and ends."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

import apsw

from host.sqlite.confinement import ConfinedConnection
from host.sqlite.errors import DRIVER_ERRORS, StatementRefused, translated, translation

Value: TypeAlias = int | float | str | bytes | None
Row: TypeAlias = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """All that one statement gave: `changes` counts rows it inserted, updated or deleted, 0 for one that reads."""

    columns: tuple[str, ...]
    rows: list[Row]
    changes: int
    last_row_id: int


class _Trace:
    """Sees each statement of a text before it runs: keeps the column names, stops a second statement."""

    __slots__ = ("columns", "count", "most")

    def __init__(self, most: int | None) -> None:
        self.columns: tuple[str, ...] = ()
        self.count = 0
        self.most = most

    def __call__(self, cursor: apsw.Cursor, sql: str, bindings: object) -> bool:
        self.count += cursor.has_vdbe
        self.columns = tuple(name for name, *_ in cursor.get_description())
        return self.most is None or self.count <= self.most


class Transaction:
    """Statements of one unit of work, valid only while the unit runs, in the database's own thread."""

    def __init__(self, connection: ConfinedConnection) -> None:
        self._connection = connection

    def execute(self, sql: str, parameters: Sequence[Value] = ()) -> list[Row]:
        """Run one statement to its end and return its rows. Raises `DatabaseError`."""
        with translated():
            return cast(list[Row], self._connection.execute(sql, parameters).fetchall())

    def query(self, sql: str, parameters: Sequence[Value] = ()) -> Answer:
        """Run exactly one statement and return its rows with their column names. Raises `DatabaseError`."""
        connection = self._connection
        before = connection.total_changes()
        columns: tuple[str, ...] = ()
        rows: list[Row] = []
        if sql in connection.known_writes:
            try:
                connection.execute(sql, parameters)
            except DRIVER_ERRORS as error:
                raise translation(error) from error
        else:
            columns, rows = self._trace_one(sql, parameters)
        changes = connection.changes() if connection.total_changes() != before else 0
        return Answer(columns, rows, changes, connection.last_insert_rowid())

    def _trace_one(self, sql: str, parameters: Sequence[Value]) -> tuple[tuple[str, ...], list[Row]]:
        """Column names and rows of a text that is seen to hold one statement."""
        trace = _Trace(most=1)
        with translated():
            cursor = self._connection.cursor()
            cursor.exec_trace = trace
            try:
                rows = cast(list[Row], cursor.execute(sql, parameters).fetchall())
            except apsw.ExecTraceAbort as error:
                raise StatementRefused("a prepared statement holds one statement; use batch or exec") from error
        if not trace.count:
            raise StatementRefused("there is no statement in the text")
        if not trace.columns:
            self._connection.remember_write(sql)
        return trace.columns, rows

    def run_script(self, sql: str) -> int:
        """Run every statement of a text without parameters; returns how many there were. Raises `DatabaseError`."""
        trace = _Trace(most=None)
        with translated():
            cursor = self._connection.cursor()
            cursor.exec_trace = trace
            for _ in cursor.execute(sql):
                pass
        return trace.count

    @property
    def changes(self) -> int:
        """Rows that the last INSERT, UPDATE or DELETE changed."""
        return self._connection.changes()
