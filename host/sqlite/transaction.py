"""What a unit of work sees of SQLite: statements inside a transaction that somebody else begins and ends."""

from collections.abc import Sequence
from typing import TypeAlias, cast

import apsw

from host.sqlite.errors import translated

Value: TypeAlias = int | float | str | bytes | None
Row: TypeAlias = tuple[Value, ...]


class Transaction:
    """Statements of one unit of work, valid only while the unit runs, in the database's own thread."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def execute(self, sql: str, parameters: Sequence[Value] = ()) -> list[Row]:
        """Run one statement to its end and return its rows. Raises `DatabaseError`."""
        with translated():
            return cast(list[Row], self._connection.execute(sql, parameters).fetchall())

    @property
    def changes(self) -> int:
        """Rows that the last INSERT, UPDATE or DELETE changed."""
        return self._connection.changes()
