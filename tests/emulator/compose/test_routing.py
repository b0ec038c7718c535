"""Tables of routes go out one after the other, and those who wait for one share it."""

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from emulator.compose.routing import Routing
from emulator.runtime.routes import RouteTable
from host.ports import BackendUnavailable


@dataclass
class Rows:
    """The part of a catalog that a table of Workers without Deployments needs."""

    workers: dict[str, str] = field(default_factory=dict)

    async def routes(self) -> tuple[()]:
        return ()

    async def names(self) -> dict[str, str]:
        return dict(self.workers)

    async def endpoints(self) -> dict[str, tuple[str, ...]]:
        return {}


@dataclass
class SlowGateway:
    """Takes a table once it is let."""

    tables: list[set[str]] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    error: Exception | None = None

    async def publish(self, table: RouteTable) -> None:
        self.tables.append({route.name for route in table.routes})
        await self.gate.wait()
        if self.error is not None:
            raise self.error


def routing_of(rows: Rows, gateway: SlowGateway) -> Routing:
    return Routing(cast(Any, rows), cast(Any, gateway), None)


@pytest.mark.req("WD-04")
async def test_every_call_ends_under_a_table_that_was_read_after_it() -> None:
    rows, gateway = Rows(), SlowGateway()
    routing = routing_of(rows, gateway)

    async def add(name: str) -> set[str]:
        rows.workers[name] = name
        await routing.publish()
        return gateway.tables[-1]

    first = asyncio.create_task(add("first"))
    while not gateway.tables and not first.done():
        await asyncio.sleep(0)
    others = [asyncio.create_task(add(f"w{number}")) for number in range(20)]
    await asyncio.sleep(0)
    assert gateway.tables == [{"first"}]
    gateway.gate.set()
    await asyncio.gather(first, *others)
    assert len(gateway.tables) == 2, "the twenty shared a table"
    assert gateway.tables[-1] == {"first", *(f"w{number}" for number in range(20))}


@pytest.mark.req("WD-04")
async def test_a_failure_is_told_to_all_who_waited_and_to_nobody_later() -> None:
    rows, gateway = Rows(), SlowGateway(error=BackendUnavailable("not in time"))
    gateway.gate.set()
    routing = routing_of(rows, gateway)
    results = await asyncio.gather(routing.publish(), routing.publish(), return_exceptions=True)
    assert [type(each) for each in results] == [BackendUnavailable, BackendUnavailable]
    gateway.error = None
    await routing.publish()
