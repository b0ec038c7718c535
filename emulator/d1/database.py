"""Prepared statements and batches in the shape of the D1 client. One batch is one transaction."""

import asyncio
from collections.abc import Sequence
from typing import TypeAlias

from emulator.d1.driver import Driver
from emulator.d1.statement import ExecResult, Result, Statement
from emulator.d1.values import check_values
from host.sqlite import StatementRefused, Value
from host.sqlite.transaction import Row


class PreparedStatement:
    """A statement that runs by itself or in a batch; `bind` gives a new one, as in D1."""

    def __init__(self, database: "Database", statement: Statement) -> None:
        self._database = database
        self.statement = statement

    def bind(self, *values: Value) -> "PreparedStatement":
        """The same text with these values in place of any bound before. Raises `ValueRefused` at once."""
        check_values(values)
        return PreparedStatement(self._database, Statement(self.statement.sql, values))

    async def all(self) -> Result:
        """Row objects in `results`, and `meta`. Raises `host.sqlite.DatabaseError`."""
        if self.statement.is_query:
            return (await self._database.query([self.statement]))[0]
        return (await self._database.batch([self.statement]))[0]

    async def run(self) -> Result:
        """The same as `all`, for statements that are run for their changes."""
        return await self.all()

    async def first(self, column: str | None = None) -> dict[str, Value] | Value:
        """The first row's object, or its value of one column; none without a row. Raises `DatabaseError`."""
        results = (await self.all()).results
        if not results:
            return None
        if column is None:
            return results[0]
        if column not in results[0]:
            raise StatementRefused(f"there is no column {column!r} in the result")
        return results[0][column]

    async def raw(self, column_names: bool = False) -> list[Row]:
        """The rows as tuples, after a tuple of the column names if they are asked for."""
        found = await self.all()
        return [found.columns, *found.rows] if column_names else list(found.rows)


Preparable: TypeAlias = Statement | PreparedStatement


class Database:
    """The D1-shaped face of one database. Batches are durable when they return and keep the order of the calls."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def prepare(self, sql: str) -> PreparedStatement:
        return PreparedStatement(self, Statement(sql))

    def submit(self, statements: Sequence[Preparable], *, is_urgent: bool = False) -> "asyncio.Future[list[Result]]":
        """Queue a batch now; it joins the next group commit. The future ends when the batch is durable or refused.

        An urgent one, which must not build on any that waits, goes before them. Raises `ValueRefused` at once, nothing
        queued.
        """
        return self._driver.submit(_checked(statements), is_urgent=is_urgent)

    async def batch(self, statements: Sequence[Preparable]) -> list[Result]:
        """Run all of them in one transaction, or none. Raises `host.sqlite.DatabaseError`.

        A caller that is cancelled leaves the batch queued: it is committed all the same.
        """
        return await self.submit(statements)

    async def query(self, statements: Sequence[Preparable]) -> list[Result]:
        """Run reading statements on one snapshot of what is committed."""
        return await self._driver.query(_checked(statements))

    async def exec(self, sql: str) -> ExecResult:
        """Run every statement of a text, without parameters, in one transaction. Raises `DatabaseError`."""
        return await self._driver.run_script(sql)


def _checked(statements: Sequence[Preparable]) -> list[Statement]:
    plain = [each.statement if isinstance(each, PreparedStatement) else each for each in statements]
    for statement in plain:
        check_values(statement.values)
    return plain
