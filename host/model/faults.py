"""Named points between two durable writes at which a test can make the process die or a call fail.

Owns the names and what is armed. Knows nothing of who reaches a point; an unarmed point costs a dictionary look-up.
"""

import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

DEFAULT_DELAY_S = 1.0
LONGEST_DELAY_S = 60.0

_registered: dict[str, str] = {}


def register(name: str, meaning: str) -> str:
    """Declare a point at import time: `meaning` says what lies before and after it. Returns the name."""
    if _registered.setdefault(name, meaning) != meaning:
        raise ValueError(f"fault point {name!r} is declared twice")
    return name


def registered() -> Mapping[str, str]:
    """Every declared point and its meaning, in order of name."""
    return dict(sorted(_registered.items()))


class FaultAction(StrEnum):
    KILL = "kill"
    ERROR = "error"
    DELAY = "delay"


class InjectedFault(RuntimeError):
    """The failure an armed point raises. A unit of work that ends with it is not tried again: it was to fail."""

    is_for_good = True


class UnknownFaultPoint(ValueError):
    """A name that no code has declared."""


@dataclass(slots=True)
class _Armed:
    action: FaultAction
    remaining: int
    delay_s: float


def _kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class FaultPoints:
    """What is armed in one host."""

    def __init__(self, kill: Callable[[], None] = _kill_self, sleep: Callable[[float], None] = time.sleep) -> None:
        self._kill = kill
        self._sleep = sleep
        self._armed: dict[str, _Armed] = {}

    @classmethod
    def none(cls) -> "FaultPoints":
        """Nothing armed."""
        return cls()

    def arm(
        self, name: str, nth: int = 1, action: FaultAction = FaultAction.KILL, delay_s: float = DEFAULT_DELAY_S
    ) -> None:
        """Act when `name` is reached for the `nth` time from now. Raises `UnknownFaultPoint`, `ValueError`.

        A delay, at most a minute of real time, holds up whatever thread reaches the point.
        """
        if name not in _registered:
            raise UnknownFaultPoint(f"no fault point is called {name!r}")
        if nth < 1:
            raise ValueError("nth counts from 1")
        if not 0 <= delay_s <= LONGEST_DELAY_S:
            raise ValueError(f"a delay is from 0 to {LONGEST_DELAY_S:g} seconds")
        self._armed[name] = _Armed(action, nth, delay_s)

    def armed(self) -> Mapping[str, tuple[FaultAction, int]]:
        """What each armed point will do, and at the how many-th time from now."""
        return {name: (armed.action, armed.remaining) for name, armed in dict(self._armed).items()}

    def disarm(self) -> None:
        self._armed.clear()

    def reach(self, name: str) -> None:
        """Called where the point lies; returns unless this is the armed occasion. Raises `InjectedFault`."""
        if not self._armed or (armed := self._armed.get(name)) is None:
            return
        armed.remaining -= 1
        if armed.remaining > 0:
            return
        del self._armed[name]
        match armed.action:
            case FaultAction.KILL:
                self._kill()
            case FaultAction.ERROR:
                raise InjectedFault(f"fault injected at {name}")
            case FaultAction.DELAY:
                self._sleep(armed.delay_s)
            case other:
                assert_never(other)
