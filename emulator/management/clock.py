"""Moves contract time from due instant to due instant, one move at a time. Knows no HTTP and no workflow."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from emulator.management.parts import Workload
from host.model.time import LATEST_MS, ClockMode, ClockRefused, ControlledClock, RealTime, timestamp

SETTLE_TIMEOUT_S = 30.0


class AdvanceHeld(Exception):
    """Something still executes after the settle timeout: the clock stands at the instant it had reached."""

    def __init__(self, at_ms: int, holders: tuple[str, ...], timeout_s: float) -> None:
        named = ", ".join(holders) or "work that nobody names"
        super().__init__(f"stopped at {timestamp(at_ms)}: after {timeout_s:g} s of real time still executing: {named}")
        self.at_ms = at_ms
        self.holders = holders


@dataclass(frozen=True, slots=True)
class ClockReading:
    """What the clock shows: mode, instant, and when something falls due next."""

    mode: ClockMode
    now_ms: int
    next_due_ms: int | None


async def _nobody() -> None:
    """Nobody else has to be told of a change."""


class ClockControl:
    """Freezes, thaws and advances; changes are serialised. Settling is judged by real time only.

    `tell` is awaited after every change: what runs app code goes by the clock before the change is reported.
    """

    def __init__(
        self,
        clock: ControlledClock,
        workload: Workload,
        real_time: RealTime,
        settle_timeout_s: float = SETTLE_TIMEOUT_S,
        tell: Callable[[], Awaitable[None]] = _nobody,
    ) -> None:
        self._clock = clock
        self._workload = workload
        self._real_time = real_time
        self._settle_timeout_s = settle_timeout_s
        self._tell = tell
        self._moving = asyncio.Lock()

    async def read(self) -> ClockReading:
        """The present reading; never waits for a move that is under way."""
        return ClockReading(self._clock.state.mode, self._clock.now_ms(), await self._workload.next_due_ms())

    async def freeze(self) -> ClockReading:
        async with self._moving:
            self._clock.freeze()
            await self._tell()
        return await self.read()

    async def thaw(self) -> ClockReading:
        async with self._moving:
            self._clock.thaw()
            await self._tell()
        return await self.read()

    async def advance(self, seconds: float) -> ClockReading:
        """Move on by `seconds`, stopping at every due instant on the way. Raises `ClockRefused`, `AdvanceHeld`."""
        if not math.isfinite(seconds) or seconds < 0.001:
            raise ClockRefused("seconds must be a finite number of at least 0.001")
        async with self._moving:
            target_ms = self._clock.now_ms() + (round(seconds * 1000) if seconds < LATEST_MS else LATEST_MS)
            if target_ms > LATEST_MS:
                raise ClockRefused("the clock cannot go beyond the year 9999")
            await self._pass_due_instants(target_ms)
            await self._move(target_ms)
            await self._settle()
        return await self.read()

    async def run_to_idle(self) -> ClockReading:
        """Move to due instants until nothing falls due any more. Raises `ClockRefused`, `AdvanceHeld`."""
        async with self._moving:
            await self._pass_due_instants(LATEST_MS)
        return await self.read()

    async def _pass_due_instants(self, until_ms: int) -> None:
        await self._settle()
        while (due_ms := await self._workload.next_due_ms()) is not None and due_ms <= until_ms:
            await self._move(due_ms)
            await self._settle()

    async def _move(self, at_ms: int) -> None:
        if at_ms > self._clock.now_ms():
            self._clock.move_to(at_ms)
            await self._tell()

    async def _settle(self) -> None:
        idle = asyncio.ensure_future(self._workload.idle())
        timer = asyncio.ensure_future(self._real_time.sleep_s(self._settle_timeout_s))
        try:
            await asyncio.wait({idle, timer}, return_when=asyncio.FIRST_COMPLETED)
            if not idle.done():
                raise AdvanceHeld(self._clock.now_ms(), self._workload.executing(), self._settle_timeout_s)
            idle.result()
        finally:
            idle.cancel()
            timer.cancel()
