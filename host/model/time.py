"""The two time sources and the text form of an instant.

`Clock` dates what a contract speaks of and may be frozen or advanced; `RealTime` only asks whether something is
still alive and never is. They share no method, so the type checker refuses one in place of the other.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Protocol, assert_never

LATEST_MS = 253402300799999  # 9999-12-31T23:59:59.999Z
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_START = _EPOCH.replace(tzinfo=None)  # without an offset in its text
_LONGEST_NAP_S = 30.0  # a system clock may be set by hand: look again at least this often


def timestamp(at_ms: int) -> str:
    """RFC 3339 in UTC with milliseconds, the text `Date.prototype.toISOString()` gives (HA-05, RS-30)."""
    return (_START + timedelta(milliseconds=at_ms)).isoformat(timespec="milliseconds") + "Z"


class Clock(Protocol):
    """Contract time: sleeps, retries, timeouts, lifetime, retention and every timestamp."""

    def now_ms(self) -> int:
        """Unix milliseconds; never less than an earlier answer."""

    async def sleep_until(self, at_ms: int) -> None:
        """Return once `now_ms() >= at_ms`, however the clock got there."""

    @property
    def is_controlled(self) -> bool:
        """Whether it was frozen or moved, so that isolates must be told the time."""


class RealTime:
    """Liveness time: leases, silence, watchdogs, stop deadlines, HTTP timeouts. Never frozen or advanced."""

    def monotonic_s(self) -> float:
        return time.monotonic()

    async def sleep_s(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class ClockMode(StrEnum):
    SYSTEM = "system"
    FROZEN = "frozen"
    ADVANCED = "advanced"


@dataclass(frozen=True, slots=True)
class ClockState:
    """What a restart needs: `value_ms` is the frozen instant, or the offset from the system clock."""

    mode: ClockMode = ClockMode.SYSTEM
    value_ms: int = 0


class ClockRefused(ValueError):
    """A change that would move contract time backwards or beyond year 9999."""


def _system_ms() -> int:
    return time.time_ns() // 1_000_000


class ControlledClock:
    """A `Clock` that follows the system until it is frozen or moved.

    `save` is called with the new state before a change takes effect, so that a killed host never restarts at an
    earlier instant than one it has shown.
    """

    def __init__(
        self,
        state: ClockState = ClockState(),
        save: Callable[[ClockState], None] = lambda _: None,
        system_ms: Callable[[], int] = _system_ms,
    ) -> None:
        self._state = state
        self._save = save
        self._system_ms = system_ms
        self._latest_ms = 0
        self._changed = asyncio.Event()

    @classmethod
    def frozen(cls, at_ms: int) -> "ControlledClock":
        """A clock that stands at `at_ms` until it is moved: what tests want."""
        return cls(ClockState(ClockMode.FROZEN, at_ms))

    @property
    def state(self) -> ClockState:
        return self._state

    @property
    def is_controlled(self) -> bool:
        return self._state.mode is not ClockMode.SYSTEM

    @property
    def is_frozen(self) -> bool:
        return self._state.mode is ClockMode.FROZEN

    def now_ms(self) -> int:
        match self._state.mode:
            case ClockMode.FROZEN:
                now = self._state.value_ms
            case ClockMode.SYSTEM | ClockMode.ADVANCED:
                now = min(self._system_ms() + self._state.value_ms, LATEST_MS)
            case other:
                assert_never(other)
        self._latest_ms = max(self._latest_ms, now)
        return self._latest_ms

    async def sleep_until(self, at_ms: int) -> None:
        while (remaining_ms := at_ms - self.now_ms()) > 0:
            changed = self._changed
            if self.is_frozen:
                await changed.wait()
                continue
            try:
                async with asyncio.timeout(min(remaining_ms / 1000, _LONGEST_NAP_S)):
                    await changed.wait()
            except TimeoutError:
                pass

    def freeze(self) -> None:
        """Stand still at the present instant."""
        self._become(ClockState(ClockMode.FROZEN, self.now_ms()))

    def move_to(self, at_ms: int) -> None:
        """Set contract time to `at_ms`; frozen stays frozen, running goes on from there. Raises `ClockRefused`."""
        now = self.now_ms()
        if at_ms < now:
            raise ClockRefused("the clock cannot go backwards")
        if at_ms > LATEST_MS:
            raise ClockRefused("the clock cannot go beyond the year 9999")
        if self.is_frozen:
            self._become(ClockState(ClockMode.FROZEN, at_ms))
        else:
            self._become(ClockState(ClockMode.ADVANCED, self._state.value_ms + at_ms - now))

    def thaw(self) -> None:
        """Run on from the frozen instant at the system clock's pace."""
        if self.is_frozen:
            self._become(ClockState(ClockMode.ADVANCED, self._state.value_ms - self._system_ms()))

    def _become(self, state: ClockState) -> None:
        self._save(state)
        self._state = state
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
