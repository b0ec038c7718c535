"""Instances on a store without room: none ends, effects are not done over and over, and all goes on with room."""

import asyncio
import logging

import pytest

from emulator.runstore.liveness import TOUCH_EVERY_S
from emulator.workflow.shortage import FIRST_REST_S, LONGEST_REST_S, Shortage
from host.model.time import RealTime
from host.sqlite import DatabaseBusy, DatabaseFull
from tests.emulator.workflow.bodies import Effects, never_ends, waits_for_go
from tests.emulator.workflow.conftest import Boot
from tests.emulator.workflow.isolates import Document, Step
from tests.host.sqlite.pages import allow_few_pages, allow_pages

FULL = DatabaseFull("database or disk is full")
LARGE = "x" * 100_000


class HeldTime(RealTime):
    """Rests of the engine pass one by one, when the test says so; other pauses at once."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.rests: list[float] = []
        self._steps: asyncio.Queue[None] = asyncio.Queue()

    def monotonic_s(self) -> float:
        return self.now_s

    async def sleep_s(self, seconds: float) -> None:
        if seconds < FIRST_REST_S:
            await asyncio.sleep(0)
            return
        if seconds == TOUCH_EVERY_S:
            await asyncio.Event().wait()
        self.rests.append(seconds)
        await self._steps.get()
        self.now_s += seconds

    def step(self) -> None:
        self._steps.put_nowait(None)


class QuickTime(RealTime):
    """No pause takes time, and nothing is touched."""

    async def sleep_s(self, seconds: float) -> None:
        if seconds == TOUCH_EVERY_S:
            await asyncio.Event().wait()
        await asyncio.sleep(0)


@pytest.mark.req("DW-39")
async def test_an_effect_whose_result_has_no_room_is_done_again_after_a_rest_that_grows(
    start: Boot, caplog: pytest.LogCaptureFixture
) -> None:
    effects, real_time = Effects(), HeldTime()

    async def saves(params: Document, step: Step) -> Document:
        await step.do("large", effects.of("large", {"text": LARGE}))
        return {"is": "saved"}

    host = await start(Flow=saves, real_time=real_time)
    await allow_few_pages(host.file, 12)
    await host.create()
    for count in (1, 2, 3):
        await host.until(lambda count=count: len(real_time.rests) == count)  # type: ignore[misc]
        assert effects.runs["large"] == count
        await host.becomes("queued")
        if count < 3:
            real_time.step()
    await allow_pages(host.file)
    real_time.step()
    await host.becomes("complete")
    assert (await host.output(), effects.runs["large"]) == ({"is": "saved"}, 4)
    assert real_time.rests == [1.0, 2.0, 4.0]
    assert all(context.stop is not None for context in (await host.history()).contexts)
    lines = [record.getMessage() for record in caplog.records if record.name == "takohost.workflow"]
    assert lines == 3 * [
        "no context is started for a while: there is no room to record it: database or disk is full",
        "contexts are started again",
    ]


@pytest.mark.req("DW-16", "DW-12")
async def test_what_has_no_room_is_not_accepted_and_what_waits_goes_on_waiting(start: Boot) -> None:
    host = await start(Flow=waits_for_go, real_time=HeldTime())
    await host.create()
    await host.becomes("waiting")
    await allow_few_pages(host.file)
    with pytest.raises(DatabaseFull):
        await host.create("other", {"more": LARGE})
    with pytest.raises(DatabaseFull):
        await host.send("go", {"n": 1, "more": LARGE})
    assert (await host.status()).status == "waiting"
    await allow_pages(host.file)
    await host.send("go", {"n": 2})
    await host.becomes("complete")
    assert await host.output() == {"got": 2}


@pytest.mark.req("DW-39", "HA-80")
async def test_a_host_that_cannot_record_the_end_of_contexts_leaves_it_to_the_next_one(
    start: Boot, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(statements: object) -> None:
        raise FULL

    host = await start(Flow=never_ends, real_time=QuickTime())
    await host.create()
    await host.executing(steps=1)
    monkeypatch.setattr(host.database, "batch", refuse)
    await host.close()
    lines = [record.getMessage() for record in caplog.records if record.name == "takohost.workflow"]
    assert lines == [
        "no context is started for a while: there is no room to record it: database or disk is full",
        "there is no room to record the end of contexts: the next start does",
    ]
    effects = Effects()

    async def ends(params: Document, step: Step) -> Document:
        await step.do("endless", effects.of("endless"))
        return {"is": "over"}

    again = await start(Flow=ends)
    await again.becomes("complete")
    assert (await again.output(), len((await again.history()).contexts)) == ({"is": "over"}, 2)


async def test_a_shortage_is_told_once_and_ends_with_a_rest_in_which_no_write_fails(
    caplog: pytest.LogCaptureFixture,
) -> None:
    real_time = HeldTime()
    shortage = Shortage(real_time)
    await shortage.rest()
    assert not shortage.note(DatabaseBusy("busy"))
    for _ in range(5):
        assert shortage.note(FULL)
    resting = asyncio.create_task(shortage.rest())
    for fails in (True, True, False):
        await asyncio.sleep(0)
        assert not resting.done()
        if fails:
            shortage.note(FULL)
        real_time.step()
    await resting
    assert (shortage.is_on, real_time.rests) == (False, [FIRST_REST_S] * 3)
    assert len(caplog.records) == 2
    assert all(record.levelno == logging.WARNING for record in caplog.records)


async def test_rests_grow_up_to_a_limit_and_are_short_again_after_a_while() -> None:
    real_time = HeldTime()
    shortage = Shortage(real_time)
    for _ in range(7):
        shortage.note(FULL)
        real_time.step()
        await shortage.rest()
    assert real_time.rests == [1.0, 2.0, 4.0, 8.0, 16.0, LONGEST_REST_S, LONGEST_REST_S]
    real_time.now_s += 61.0
    shortage.note(FULL)
    real_time.step()
    await shortage.rest()
    assert real_time.rests[-1] == FIRST_REST_S
