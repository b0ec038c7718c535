"""A workflow engine on a real file with a frozen clock and scripted isolates, and moves a test makes with it."""

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from emulator.catalog import Catalog
from emulator.contexts import Notice
from emulator.d1 import CONFINEMENT, Database, FileDriver
from emulator.workflow import APPLICATION_ID, MIGRATIONS, Engine, InstanceHistory, InstanceStatus
from host import sqlite
from host.model.faults import FaultPoints
from host.model.private_keys import KEY_BYTES, PrivateKeys
from host.model.time import ControlledClock, RealTime
from host.ports import VersionRecord, Weight
from tests.emulator.workflow.isolates import Body, Document, FakeRunners, document_of, text_of

KEYS = PrivateKeys(b"k" * KEY_BYTES)

START_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
WORKER, WORKFLOW, DEPLOYMENT = "worker-1", "workflow-1", "deployment-1"
_LIMIT_S = 60.0


def version(uid: str, *classes: str) -> VersionRecord:
    return VersionRecord(uid, WORKER, "0" * 64, {}, (), ("fetch",), classes)


@dataclass
class Host:
    """One boot of the engine; `notices` is what it told people."""

    file: sqlite.Database
    database: Database
    catalog: Catalog
    clock: ControlledClock
    runners: FakeRunners
    engine: Engine
    notices: list[Notice] = field(default_factory=list)
    is_gone: bool = False

    async def deploy(self, *versions: str, classes: tuple[str, ...] = ("Flow",)) -> None:
        for uid in versions:
            await self.catalog.put_version(version(uid, *classes))
        share = 10_000 // len(versions)
        weights = tuple(Weight(uid, share) for uid in versions)
        await self.catalog.activate(DEPLOYMENT, WORKER, weights, self.clock.now_ms())
        self.engine.deployments_changed()

    async def create(self, identifier: str | None = "i", params: Document = None) -> str:
        return await self.engine.instances.create(WORKFLOW, identifier, text_of(params))

    async def send(self, event_type: str, payload: Document = None, identifier: str = "i") -> None:
        await self.engine.instances.send_event(WORKFLOW, identifier, event_type, text_of(payload))

    async def terminate(self, identifier: str = "i") -> None:
        await self.engine.instances.terminate(WORKFLOW, identifier)

    async def status(self, identifier: str = "i") -> InstanceStatus:
        return await self.engine.instances.status(WORKFLOW, identifier)

    async def output(self, identifier: str = "i") -> Document:
        status = await self.status(identifier)
        assert status.status == "complete", status
        return document_of(status.output_text)

    async def history(self, identifier: str = "i") -> InstanceHistory:
        """Of few contexts and steps: all of them stand in its first pages."""
        found = await self.engine.inspection.history(WORKFLOW, identifier)
        assert found is not None and (found.more_contexts_after, found.more_steps_after) == (None, None)
        return found

    async def until(self, holds: Callable[[], bool]) -> None:
        """Let the event loop turn until something holds that nobody tells."""
        async with asyncio.timeout(_LIMIT_S):
            while not holds():
                await asyncio.sleep(0)

    async def executing(self, contexts: int = 1, steps: int = 0) -> None:
        """Until so many contexts were started in all, and the only instance has so many steps."""
        await self.until(lambda: len(self.runners.started) >= contexts)
        async with asyncio.timeout(_LIMIT_S):
            while steps and len((await self.history()).steps) < steps:
                continue

    async def becomes(self, status: str, identifier: str = "i") -> None:
        async with asyncio.timeout(_LIMIT_S):
            while (await self.status(identifier)).status != status:
                continue

    async def idle(self) -> None:
        async with asyncio.timeout(_LIMIT_S):
            await self.engine.idle()

    async def advance(self, seconds: float) -> None:
        """From due instant to due instant, as the management listener does it."""
        until_ms = self.clock.now_ms() + round(seconds * 1000)
        await self.idle()
        while (next_ms := await self.engine.next_due_ms()) is not None and next_ms <= until_ms:
            self.clock.move_to(max(next_ms, self.clock.now_ms()))
            await self.idle()
        self.clock.move_to(until_ms)
        await self.idle()

    async def close(self) -> None:
        if self.is_gone:
            return
        self.is_gone = True
        async with asyncio.timeout(_LIMIT_S):
            await self.engine.close()
            await self.file.close()

    async def vanish(self) -> None:
        """End this boot as SIGKILL would: nothing more is written."""
        self.is_gone = True
        await self.engine._scheduler.stop()
        await self.engine._retention.stop()
        for session in self.engine._sessions():
            session._is_stopping = True
        for context in self.runners.started:
            context.cut()
        await self.file.close()


async def boot(
    path: Path,
    clock: ControlledClock,
    *,
    is_alive: Callable[[int, str], bool] = lambda pid, started: False,
    faults: FaultPoints | None = None,
    max_contexts: int = 100,
    real_time: RealTime | None = None,
    prefix: str = "",
    starts: bool = True,
    random: Callable[[], float] = lambda: 0.0,
    **bodies: Body,
) -> Host:
    """Open the engine on the file at `path` and start it."""
    file = await sqlite.Database.open(
        path, application_id=APPLICATION_ID, migrations=MIGRATIONS, confinement=CONFINEMENT
    )
    database = Database(FileDriver(file))
    runners = FakeRunners(**bodies)
    numbers = itertools.count(1)
    notices: list[Notice] = []
    engine = await Engine.open(
        database,
        clock,
        real_time or RealTime(),
        lambda: f"{prefix}t{next(numbers)}",
        faults or FaultPoints.none(),
        runners,
        random,
        is_alive,
        KEYS,
        notices.append,
        max_contexts,
    )
    host = Host(file, database, Catalog(database, KEYS), clock, runners, engine, notices)
    await engine.gates.open(WORKFLOW, WORKER, "Flow")
    if starts:
        engine.start()
    return host
