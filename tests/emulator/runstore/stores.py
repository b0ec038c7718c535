"""A run store on either driver, rows put into it as any writer may have left them, and a driver that loses answers."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence

import pytest

from emulator.d1 import Database, Driver, ExecResult, Result, Statement
from emulator.runstore import FencedRunStore, RunAddress, RunRow, SnapshotWrite
from emulator.runstore.schema import migrations
from host.sqlite import AnswerLost
from tests.emulator.drivers import d1_address, driver

__all__ = ["d1_address", "database", "driver", "store"]

T0 = "2026-01-01T00:00:00.000Z"
T1 = "2026-01-01T00:00:01.000Z"
T2 = "2026-01-01T00:00:02.000Z"
RUN = RunAddress("flow", "run/1 \U0001f600")
OTHER = RunAddress("flow", "other")
PREFIX = "p_"


@pytest.fixture
async def database(driver: Driver) -> AsyncIterator[Database]:
    opened = Database(driver)
    await make_tables(opened)
    yield opened


@pytest.fixture
def store(database: Database) -> FencedRunStore:
    return FencedRunStore(database, PREFIX)


async def make_tables(database: Database, prefix: str = PREFIX) -> None:
    """The store's tables; D1's exec takes one line a statement, so they go as a batch."""
    statements = [each for script in migrations(prefix) for each in script.split(";") if each.strip()]
    await database.batch([Statement(each) for each in statements])


async def put(database: Database, snapshot: str, address: RunAddress = RUN, resource_id: str | None = None) -> None:
    """A row with any text as its snapshot."""
    values = (address.workflow_id, address.run_id, resource_id, snapshot, T0, T0)
    await database.batch([Statement(f"INSERT OR REPLACE INTO {PREFIX}runs VALUES (?, ?, ?, ?, ?, ?)", values)])


async def remove(database: Database, address: RunAddress = RUN) -> None:
    """Delete the row."""
    sql = f"DELETE FROM {PREFIX}runs WHERE workflow_id = ? AND run_id = ?"
    await database.batch([Statement(sql, (address.workflow_id, address.run_id))])


async def row(store: FencedRunStore, address: RunAddress = RUN) -> RunRow:
    """The row that is there."""
    found = await store.read_snapshot(address)
    assert found is not None
    return found


def snapshot(lifecycle: str | None = '{"version":1,"revision":2}', status: str = "running", more: str = "") -> str:
    """A snapshot's text; `more` are further members, each with its leading comma."""
    life = "" if lifecycle is None else f',"lifecycle":{lifecycle}'
    return f'{{"status":{json.dumps(status)},"timestamp":1{life}{more}}}'


def nested(depth: int) -> str:
    """Arrays inside each other."""
    return "[" * depth + "]" * depth


def unparsed(lifecycle: str | None = '{"version":1,"revision":2}', status: str = "running") -> str:
    """A snapshot that SQLite cannot parse and Python can: 1001 containers inside each other."""
    return snapshot(lifecycle, status, f',"deep":{nested(1000)}')


def write(text: str, address: RunAddress = RUN, updated_at: str = T1, resource_id: str | None = None) -> SnapshotWrite:
    """An ordinary write."""
    return SnapshotWrite(address, text, T0, updated_at, resource_id)


class LossyDriver:
    """Loses the answer of the next batch that is armed: before the batch reaches the database, or after."""

    def __init__(self, inner: Driver) -> None:
        self._inner = inner
        self.loses: str | None = None

    def submit(self, statements: Sequence[Statement], *, is_urgent: bool = False) -> "asyncio.Future[list[Result]]":
        return asyncio.ensure_future(self._submit(list(statements)))

    async def _submit(self, statements: list[Statement]) -> list[Result]:
        loses, self.loses = self.loses, None
        if loses == "before":
            raise AnswerLost("the line is dead")
        results = await self._inner.submit(statements)
        if loses == "after":
            raise AnswerLost("the line is dead")
        return results

    async def query(self, statements: Sequence[Statement]) -> list[Result]:
        return await self._inner.query(statements)

    async def run_script(self, sql: str) -> ExecResult:
        return await self._inner.run_script(sql)
