"""The seam under the D1 client: what runs statements. `FileDriver` runs them on a file of ours.

The tests have a second driver, on workerd's own D1, to show that the client is what it says it is.
"""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from emulator.d1.limits import CONFINEMENT
from emulator.d1.statement import ExecResult, Result, Statement
from host import sqlite
from host.sqlite import Confinement, DatabaseError, Transaction


class Driver(Protocol):
    """Runs checked statements; every error is a `host.sqlite.DatabaseError`."""

    def submit(self, statements: Sequence[Statement], *, is_urgent: bool = False) -> "asyncio.Future[list[Result]]":
        """Queue one transaction now, in the order of the calls; the future ends when it is durable or refused.

        An urgent one may go before those that wait. Cancelling the future withdraws nothing.
        """

    async def query(self, statements: Sequence[Statement]) -> list[Result]:
        """Run reading statements on one snapshot of what is committed."""

    async def run_script(self, sql: str) -> ExecResult:
        """Run every statement of a text in one transaction."""


class FileDriver:
    """Statements on one SQLite file; batches join group commits."""

    def __init__(self, file: sqlite.Database) -> None:
        self._file = file

    @classmethod
    async def open(
        cls, path: Path, *, application_id: int, migrations: Sequence[str], confinement: Confinement = CONFINEMENT
    ) -> "FileDriver":
        """Open a file with D1's limits. Raises `DatabaseError`."""
        opened = await sqlite.Database.open(
            path, application_id=application_id, migrations=migrations, confinement=confinement
        )
        return cls(opened)

    async def close(self) -> None:
        """Commit what is queued, then close the file."""
        await self._file.close()

    def submit(self, statements: Sequence[Statement], *, is_urgent: bool = False) -> "asyncio.Future[list[Result]]":
        members = tuple(statements)
        return self._file.submit(lambda transaction: _run(transaction, members), is_urgent=is_urgent)

    async def query(self, statements: Sequence[Statement]) -> list[Result]:
        members = tuple(statements)
        return await self._file.read(lambda transaction: _run(transaction, members))

    async def run_script(self, sql: str) -> ExecResult:
        def work(transaction: Transaction) -> ExecResult:
            began_s = time.perf_counter()
            count = transaction.run_script(sql)
            return ExecResult(count, _ms_since(began_s))

        return await self._file.write(work)


def _run(transaction: Transaction, statements: Sequence[Statement]) -> list[Result]:
    results: list[Result] = []
    for number, statement in enumerate(statements, 1):
        began_s = time.perf_counter()
        try:
            answer = transaction.query(statement.sql, statement.values)
        except DatabaseError as error:
            raise at_statement(error, number, len(statements)) from error
        duration_ms = _ms_since(began_s)
        results.append(Result(tuple(answer.rows), answer.changes, answer.columns, answer.last_row_id, duration_ms))
    return results


def at_statement(error: DatabaseError, number: int, count: int) -> DatabaseError:
    """The same error, its message naming the statement of the batch."""
    return error if count == 1 else type(error)(f"statement {number} of {count}: {error}")


def _ms_since(began_s: float) -> float:
    return (time.perf_counter() - began_s) * 1000
