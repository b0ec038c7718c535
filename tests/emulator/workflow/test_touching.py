"""The row of an executing context is touched in real time; silence, however long, settles nothing (RS-21)."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from emulator.d1 import Statement
from emulator.runstore.liveness import TOUCH_EVERY_S
from host.model.time import ControlledClock, RealTime, timestamp
from tests.emulator.workflow.bodies import never_ends
from tests.emulator.workflow.conftest import Boot
from tests.emulator.workflow.hosts import START_MS
from tests.emulator.workflow.isolates import Document, Step


class SteppedTime(RealTime):
    """The pauses between touches pass when the test says so, others at once."""

    def __init__(self) -> None:
        self._steps: asyncio.Queue[None] = asyncio.Queue()

    async def sleep_s(self, seconds: float) -> None:
        if seconds == TOUCH_EVERY_S:
            await self._steps.get()
        else:
            await asyncio.sleep(0)

    def step(self) -> None:
        self._steps.put_nowait(None)


@pytest.mark.req("RS-21", "RS-20")
async def test_the_row_of_an_executing_context_is_touched_every_thirty_seconds(
    start: Boot, clock: ControlledClock
) -> None:
    real_time = SteppedTime()
    host = await start(Flow=never_ends, real_time=real_time)
    await host.create()
    await host.executing(steps=1)
    for _ in range(2):
        clock.move_to(clock.now_ms() + 30_000)
        real_time.step()
        async with asyncio.timeout(10):
            while await host.database.prepare("SELECT updated_at FROM runs").raw() != [(timestamp(clock.now_ms()),)]:
                continue
    assert (await host.status()).status == "running"


@pytest.mark.req("RS-21", "RS-20")
async def test_a_context_whose_row_is_gone_is_stopped(start: Boot) -> None:
    real_time = SteppedTime()
    host = await start(Flow=never_ends, real_time=real_time)
    await host.create()
    await host.executing(steps=1)
    await host.database.batch([Statement("DELETE FROM runs")])
    real_time.step()
    await host.until(lambda: host.runners.last.is_stopped)
    await host.until(lambda: host.engine.executing() == ())


@pytest.mark.req("RS-21", "DW-24")
@pytest.mark.parametrize("down", ["ten minutes of real time", "a year of the clock"])
async def test_an_instance_goes_on_however_long_the_host_was_down(
    start: Boot, clock: ControlledClock, tmp_path: Path, down: str
) -> None:
    blocked = asyncio.Event()

    async def body(params: Document, step: Step) -> Document:
        async def effect() -> Document:
            await blocked.wait()
            return {"paid": 1}

        return await step.do("pay", effect)

    host = await start(Flow=body)
    await host.create("a")
    await host.create("b")
    await host.executing(contexts=2)
    await host.vanish()
    blocked.set()
    if down == "a year of the clock":
        clock.move_to(clock.now_ms() + 31_535_999_000)
    else:
        with sqlite3.connect(tmp_path / "emulator.sqlite") as file:
            file.execute("UPDATE runs SET updated_at = ?", (timestamp(START_MS - 600_000),))
        file.close()
    host = await start(Flow=body)
    await host.idle()
    assert [await host.output(identifier) for identifier in "ab"] == [{"paid": 1}] * 2
