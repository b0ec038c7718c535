"""Prepared statements and batches in the shape of the D1 client. One batch is one transaction."""

import asyncio
from collections.abc import Sequence

from emulator.d1.statement import Result, Statement
from host import sqlite
from host.sqlite import Transaction, Value
from host.sqlite.transaction import Row


def _run(transaction: Transaction, statements: Sequence[Statement]) -> list[Result]:
    results: list[Result] = []
    for statement in statements:
        rows = tuple(transaction.execute(statement.sql, statement.values))
        results.append(Result(rows, 0 if statement.is_query else transaction.changes))
    return results


class PreparedStatement:
    """A statement that runs by itself; `bind` gives a new one, as in D1."""

    def __init__(self, database: "Database", statement: Statement) -> None:
        self._database = database
        self.statement = statement

    def bind(self, *values: Value) -> "PreparedStatement":
        """The same text with these values in place of any bound before."""
        return PreparedStatement(self._database, Statement(self.statement.sql, values))

    async def all(self) -> Result:
        """Rows as tuples in the order of the text, and the changes made. Raises `host.sqlite.DatabaseError`."""
        if self.statement.is_query:
            return (await self._database.query([self.statement]))[0]
        return (await self._database.batch([self.statement]))[0]

    async def run(self) -> Result:
        """The same as `all`, for statements that are run for their changes."""
        return await self.all()

    async def first(self) -> Row | None:
        """The first row, or none."""
        rows = (await self.all()).rows
        return rows[0] if rows else None

    async def raw(self) -> tuple[Row, ...]:
        """The rows alone."""
        return (await self.all()).rows


class Database:
    """The D1-shaped face of one file. Batches are durable when they return and keep the order of the calls."""

    def __init__(self, file: sqlite.Database) -> None:
        self._file = file

    def prepare(self, sql: str) -> PreparedStatement:
        return PreparedStatement(self, Statement(sql))

    def submit(self, statements: Sequence[Statement]) -> "asyncio.Future[list[Result]]":
        """Queue a batch now; it joins the next group commit. The future ends when the batch is durable or refused."""
        members = tuple(statements)
        return self._file.submit(lambda transaction: _run(transaction, members))

    async def batch(self, statements: Sequence[Statement]) -> list[Result]:
        """Run all of them in one transaction, or none. Raises `host.sqlite.DatabaseError`.

        A caller that is cancelled leaves the batch queued: it is committed all the same.
        """
        return await asyncio.shield(self.submit(statements))

    async def query(self, statements: Sequence[Statement]) -> list[Result]:
        """Run reading statements on one snapshot of what is committed."""
        members = tuple(statements)
        return await self._file.read(lambda transaction: _run(transaction, members))
