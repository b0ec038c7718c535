"""What SIGTERM and SIGINT mean to a host: an orderly end, and an end at once. Knows nothing of what ends."""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

SAME_REQUEST_S = 1.0
"""A process manager and a terminal often ask together: what comes so soon after the first is the same request."""


class StopSignals:
    """The first signal asks `stop`, later ones end the process `at_once`; those right after the first change nothing.

    The first ends it, too, when `stop` raises `RuntimeError`: there is nothing left to end in order. An end at once
    leaves no child: the reaper kills them when its pipe ends, and the state is as after a SIGKILL.
    """

    def __init__(
        self,
        stop: Callable[[], object],
        at_once: Callable[[int], NoReturn] = os._exit,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stop = stop
        self._at_once = at_once
        self._now_s = now_s
        self._asked_s: float | None = None

    def install(self) -> None:
        """Take both signals over, for good. From the main thread."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self)

    def __call__(self, number: int, _frame: FrameType | None = None) -> None:
        if self._asked_s is None:
            self._asked_s = self._now_s()
            try:
                self._stop()
            except RuntimeError:
                self._at_once(128 + number)
        elif self._now_s() - self._asked_s >= SAME_REQUEST_S:
            self._at_once(128 + number)


def stop_on_signals() -> asyncio.Event:
    """An event of the running loop that the first signal sets; once the loop is closed, a signal ends the process."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    StopSignals(lambda: loop.call_soon_threadsafe(stopping.set)).install()
    return stopping
