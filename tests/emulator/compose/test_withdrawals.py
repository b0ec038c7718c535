"""Fifteen minutes after a Version left the weights, what still runs on it ends with evidence; everything else goes on."""

import asyncio
import http.client
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from emulator.catalog import GRACE_MS, Catalog
from emulator.client import Resource
from emulator.compose.withdrawals import Withdrawals
from emulator.contexts import StopEvidence
from emulator.d1 import Database, FileDriver
from emulator.workflow import APPLICATION_ID, MIGRATIONS
from host import sqlite
from host.model.private_keys import PrivateKeys
from host.model.time import ControlledClock, RealTime
from host.ports import BackendUnavailable, Weight
from tests.emulator.compose.hosts import TestHost, running_host
from tests.emulator.compose.test_lifecycle import add_version, found

EVIDENCE = StopEvidence(7, "boot", "ack", None, "2026-01-01T00:00:00.000Z")
STREAMS = """
export class Nap { async run(_, step) { await step.sleep("nap", 3600); return { edition: "EDITION" }; } }
export default {
  async fetch(request, env) {
    if (request.method === "POST") return new Response((await env.WF.create({ id: new URL(request.url).pathname })).id);
    let timer;
    const body = new ReadableStream({
      start(controller) {
        controller.enqueue(new TextEncoder().encode("EDITION\\n"));
        timer = setInterval(() => controller.enqueue(new TextEncoder().encode(".")), 20);
      },
      cancel() { clearInterval(timer); },
    });
    return new Response(body);
  },
};
"""


class Runtime:
    """Contexts and requests in one: writes down what is stopped."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.stopped: list[str] = []
        self.is_there = True

    async def stop_version(self, version_uid: str) -> None:
        self.stopped.append(f"contexts of {version_uid}")

    async def withdraw(self, version_uid: str) -> StopEvidence | None:
        if not self.is_there:
            raise BackendUnavailable("no gateway")
        if await self.catalog.is_weighted(version_uid):
            return None
        self.stopped.append(f"requests of {version_uid}")
        return EVIDENCE


class Desk:
    """A catalog on a file, a frozen clock and the loop under test."""

    def __init__(self, database: Database, clock: ControlledClock) -> None:
        self.catalog = Catalog(database, PrivateKeys(b"0" * 32))
        self.clock = clock
        self.runtime = Runtime(self.catalog)
        self.withdrawals = Withdrawals(self.catalog, self.runtime, self.runtime, clock, RealTime())

    async def switch(self, *versions: str) -> None:
        weights = tuple(Weight(each, 10_000 // len(versions)) for each in versions)
        await self.catalog.activate("d", "w", weights, self.clock.now_ms())
        self.withdrawals.deployments_changed()

    async def move(self, ms: int) -> None:
        self.clock.move_to(self.clock.now_ms() + ms)
        async with asyncio.timeout(5):
            await self.withdrawals.settled()


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    file = await sqlite.Database.open(tmp_path / "e.sqlite", application_id=APPLICATION_ID, migrations=MIGRATIONS)
    made = Desk(Database(FileDriver(file)), ControlledClock.frozen(0))
    made.withdrawals.start()
    yield made
    await made.withdrawals.stop()
    await file.close()


@pytest.mark.req("WD-04", "WD-10")
async def test_only_the_version_that_left_ends_and_only_after_its_time(desk: Desk) -> None:
    """subtle-points, Forms 9"""
    await desk.switch("a", "b")
    await desk.switch("b")
    await desk.move(GRACE_MS - 1)
    assert desk.runtime.stopped == []
    await desk.move(1)
    assert desk.runtime.stopped == ["contexts of a", "requests of a"]
    [shown] = await desk.withdrawals.list_withdrawals()
    assert (shown["versionUid"], shown["leftAt"]) == ("a", "1970-01-01T00:00:00.000Z")
    assert isinstance(shown["stop"], dict) and shown["stop"]["kind"] == "ack"
    assert (shown["dueAt"], shown["endedAt"]) == ("1970-01-01T00:15:00.000Z",) * 2


@pytest.mark.req("WD-04")
async def test_a_deadline_survives_a_restart(desk: Desk) -> None:
    """subtle-points, Forms 9: killed at 14:00, the deadline is still 15:00."""
    await desk.switch("a")
    await desk.switch("b")
    await desk.move(840_000)
    await desk.withdrawals.stop()
    again = Withdrawals(desk.catalog, desk.runtime, desk.runtime, desk.clock, RealTime())
    again.start()
    desk.clock.move_to(GRACE_MS)
    async with asyncio.timeout(5):
        await again.settled()
    await again.stop()
    assert desk.runtime.stopped == ["contexts of a", "requests of a"]


@pytest.mark.req("WD-04")
async def test_a_version_that_came_back_in_time_goes_on_and_its_time_starts_anew_when_it_leaves_again(
    desk: Desk,
) -> None:
    await desk.switch("a")
    await desk.switch("b")
    await desk.move(600_000)
    await desk.switch("a")
    await desk.switch("b")
    await desk.move(GRACE_MS - 1)
    assert desk.runtime.stopped == []
    await desk.move(1)
    assert desk.runtime.stopped == ["contexts of a", "requests of a"]


@pytest.mark.req("WD-10")
async def test_an_unproven_end_does_not_count_and_is_tried_again(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("emulator.compose.withdrawals._PATIENCE_S", 0.001)
    desk.runtime.is_there = False
    await desk.switch("a")
    await desk.switch("b")
    desk.clock.move_to(GRACE_MS)
    waiting = asyncio.create_task(desk.withdrawals.settled())
    while desk.runtime.stopped.count("contexts of a") < 3:
        await asyncio.sleep(0.001)
    assert not waiting.done()
    assert [each.ended_at for each in await desk.catalog.withdrawals()] == [None]
    desk.runtime.is_there = True
    assert await waiting
    assert [each.evidence and each.evidence["kind"] for each in await desk.catalog.withdrawals()] == ["ack"]


class Stream:
    """An open response whose body comes in pieces."""

    def __init__(self, host: TestHost) -> None:
        name, _, port = host.ready.ingress.removeprefix("http://").partition(":")
        self._connection = http.client.HTTPConnection(name, int(port), timeout=20)
        self._connection.request("GET", "/")
        self._response = self._connection.getresponse()
        self.edition = self._response.readline().decode().strip()

    def lives(self) -> bool:
        """Whether another piece comes; a cut body ends or breaks."""
        try:
            return self._response.read(1) == b"."
        except (http.client.HTTPException, OSError):
            return False

    def end(self) -> bool:
        """Whether the body ends for good."""
        return any(not self.lives() for _ in range(10_000))

    def close(self) -> None:
        self._connection.close()


@pytest.mark.usefixtures("workerd")
@pytest.mark.req("WD-04", "WD-03", "WV-09")
def test_a_stream_of_the_version_that_left_is_cut_and_the_others_flow_on(tmp_path: Path) -> None:
    """subtle-points, Forms 9"""
    with running_host(tmp_path / "h") as host:
        host.deploy("nap", STREAMS.replace("EDITION", "first"), "Nap")
        api = host.api()
        host.management.change_clock("freeze")
        old = Stream(host)
        second = add_version(host, api, "second", STREAMS)
        first, live = found(api, "nap-v1"), found(api, "nap-live")
        weights = [{"workerVersion": {"resourceUid": second.uid}, "weight": 10000}]
        api.update(live, {**live.spec, "versions": weights})
        new = Stream(host)
        assert (old.edition, new.edition) == ("first", "second")
        host.management.change_clock("advance", b'{"seconds": 899.999}')
        assert old.lives() and new.lives()
        host.management.change_clock("advance", b'{"seconds": 0.001}')
        assert old.end() and new.lives()
        [withdrawal] = host.management.withdrawals()
        assert (withdrawal["versionUid"], withdrawal["stop"]["kind"]) == (first.uid, "ack")
        assert isinstance(first, Resource)
        api.delete(first)
        assert new.lives()
        for stream in (old, new):
            stream.close()
