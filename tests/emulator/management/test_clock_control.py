"""Moving contract time from due instant to due instant."""

import asyncio

import pytest

from emulator.management.clock import AdvanceHeld, ClockControl
from host.model.time import LATEST_MS, ClockMode, ClockRefused, ControlledClock, RealTime

START_MS = 1_800_000_000_000


class Timers:
    """A workload of plain timers: each fires once when the clock reaches it and may set another."""

    def __init__(self, clock: ControlledClock, due_ms: list[int]) -> None:
        self.clock = clock
        self.due_ms = sorted(due_ms)
        self.fired: list[tuple[int, int]] = []
        self.held = asyncio.Event()
        self.held.set()

    async def next_due_ms(self) -> int | None:
        return self.due_ms[0] if self.due_ms else None

    async def idle(self) -> None:
        await self.held.wait()
        while self.due_ms and self.due_ms[0] <= self.clock.now_ms():
            self.fired.append((self.due_ms.pop(0), self.clock.now_ms()))

    def executing(self) -> tuple[str, ...]:
        return () if self.held.is_set() else ("instance 'a' of Workflow w",)


def controlled(*due_in_s: int) -> tuple[ControlledClock, Timers, ClockControl]:
    clock = ControlledClock.frozen(START_MS)
    timers = Timers(clock, [START_MS + s * 1000 for s in due_in_s])
    return clock, timers, ClockControl(clock, timers, RealTime(), settle_timeout_s=0.05)


async def test_everything_due_on_the_way_sees_its_own_instant() -> None:
    clock, timers, control = controlled(10, 20, 3600)
    reading = await control.advance(30)
    assert [(due - START_MS, seen - START_MS) for due, seen in timers.fired] == [(10_000, 10_000), (20_000, 20_000)]
    assert (reading.now_ms, reading.next_due_ms) == (START_MS + 30_000, START_MS + 3_600_000)
    assert clock.now_ms() == START_MS + 30_000


async def test_what_is_due_at_the_end_is_started_before_the_answer() -> None:
    _, timers, control = controlled(7 * 86400)
    await control.advance(7 * 86400 - 0.001)
    assert timers.fired == []
    await control.advance(0.001)
    assert len(timers.fired) == 1


async def test_an_execution_that_does_not_end_stops_the_advance_and_is_named() -> None:
    clock, timers, control = controlled(10)
    timers.held.clear()
    with pytest.raises(AdvanceHeld, match="instance 'a' of Workflow w"):
        await control.advance(60)
    assert clock.now_ms() == START_MS


async def test_advances_follow_each_other() -> None:
    clock, timers, control = controlled(15)
    timers.held.clear()
    first, second = asyncio.create_task(control.advance(10)), asyncio.create_task(control.advance(10))
    await asyncio.sleep(0)
    timers.held.set()
    await asyncio.gather(first, second)
    assert clock.now_ms() == START_MS + 20_000
    assert timers.fired == [(START_MS + 15_000, START_MS + 15_000)]


async def test_run_to_idle_stops_when_nothing_falls_due_any_more() -> None:
    _, _, control = controlled(5, 86400)
    reading = await control.run_to_idle()
    assert reading.now_ms == START_MS + 86_400_000
    assert reading.next_due_ms is None


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), 1e300, (LATEST_MS - START_MS) / 1000 + 1])
async def test_moves_that_are_no_moves_forward_are_refused(seconds: float) -> None:
    clock, _, control = controlled()
    with pytest.raises(ClockRefused):
        await control.advance(seconds)
    assert clock.now_ms() == START_MS


async def test_a_thawed_clock_runs_on_from_where_it_stood() -> None:
    clock, _, control = controlled()
    reading = await control.thaw()
    assert reading.mode is ClockMode.ADVANCED
    assert START_MS <= clock.now_ms() < START_MS + 60_000
    assert (await control.freeze()).mode is ClockMode.FROZEN
