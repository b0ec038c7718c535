"""Finds a gateway whose event loop does not turn while it burns processor time, and kills it. Says how one ended.

Knows no successor and no Version.
"""

import asyncio
import signal
from collections.abc import Callable
from dataclasses import dataclass

from emulator.runtime.gateway_process import GatewayProcess
from emulator.runtime.identity import ProcessFigures, figures_of
from host.model.time import RealTime

CPU_LIMIT_S = 0.6
"""Processor time without a turn of the event loop that a request may take."""
LOAD_CPU_LIMIT_S = 10.0
"""The same while the code of a Version is compiled and evaluated, which inspection has seen to end."""
SUSPECT_CPU_S = 0.25
"""After so much of it somebody else should take the connections that come."""
_LOOK_EVERY_S = 0.05
_LOOKS_TO_SETTLE = 20
_LOAD_WINDOW_S = 0.5
_MUCH_MEMORY_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Ending:
    """How a process ended: its exit status, why in words, and whether the code that ran in it was the cause."""

    status: int
    why: str
    is_offence: bool


class GatewayWatchdog:
    """An idle process is never pinged; processor time counts, not real time, so that a loaded machine is not taken for
    a loop."""

    def __init__(self, real_time: RealTime, cpu_limit_s: float = CPU_LIMIT_S) -> None:
        self._real_time = real_time
        self._cpu_limit_s = cpu_limit_s

    async def watch(
        self, process: GatewayProcess, on_doubt: Callable[[bool], None], on_load: Callable[[float, int], None]
    ) -> Ending:
        """Return once the process has ended, killed from here or not. `on_doubt` is told True when its event loop has
        not turned for a while, and False when it turned after all; `on_load`, twice a second while it turns, what
        share of a processor it burns and how much memory is resident, in bytes."""
        look = _Look(process, self._cpu_limit_s, on_doubt, _Load(self._real_time, on_load))
        looking = asyncio.create_task(self._look_until_spinning(look))
        try:
            return look.ending(await asyncio.shield(process.exited))
        finally:
            looking.cancel()

    async def _look_until_spinning(self, look: "_Look") -> None:
        while look.again():
            await self._real_time.sleep_s(_LOOK_EVERY_S)


class _Load:
    """Tells the share of a processor that is burnt, window by window, and the memory at its end."""

    def __init__(self, real_time: RealTime, tell: Callable[[float, int], None]) -> None:
        self._real_time = real_time
        self._tell = tell
        self._since_s = real_time.monotonic_s()
        self._cpu_s = 0.0

    def note(self, figures: ProcessFigures) -> None:
        """How the process stands now."""
        passed_s = self._real_time.monotonic_s() - self._since_s
        if passed_s >= _LOAD_WINDOW_S:
            self._tell((figures.cpu_s - self._cpu_s) / passed_s, figures.rss_bytes)
            self._since_s += passed_s
            self._cpu_s = figures.cpu_s


class _Look:
    """What is known of one process from looking at it time and again."""

    def __init__(
        self, process: GatewayProcess, cpu_limit_s: float, on_doubt: Callable[[bool], None], load: _Load
    ) -> None:
        self._process = process
        self._cpu_limit_s = cpu_limit_s
        self._on_doubt = on_doubt
        self._load = load
        self._turned_at_cpu_s = 0.0
        self._pongs = -1
        self._is_suspect = False
        self._is_doubted = False
        self._looks = 0
        self._rss_bytes = 0
        self._killed_for: str | None = None

    def again(self) -> bool:
        """Whether there is anything left to look at."""
        figures = figures_of(self._process.workerd.child.pid)
        if figures is None:
            return False
        self._rss_bytes = figures.rss_bytes
        if self._process.pongs != self._pongs:
            self._note_turn(figures)
            return True
        return self._judge(figures.cpu_s - self._turned_at_cpu_s)

    def ending(self, status: int) -> Ending:
        """What to say of the end of the process."""
        if self._killed_for is not None:
            return Ending(status, self._killed_for, True)
        if self._process.is_given_up:
            return Ending(status, "the host ended it", False)
        if status != -signal.SIGKILL:
            return Ending(status, f"the process ended with status {status}, as it does when memory runs out", True)
        much = self._rss_bytes > _MUCH_MEMORY_BYTES
        return Ending(status, "the process was killed from outside", much)

    def _note_turn(self, figures: ProcessFigures) -> None:
        self._load.note(figures)
        self._is_suspect = False
        if self._is_doubted:
            self._is_doubted = False
            self._on_doubt(False)
        if figures.cpu_s != self._turned_at_cpu_s:
            self._turned_at_cpu_s, self._pongs = figures.cpu_s, self._process.pongs
            self._process.ping()
        self._looks += 1
        if self._looks % _LOOKS_TO_SETTLE == 0 and self._process.active:
            self._process.settle()

    def _judge(self, burnt_s: float) -> bool:
        """It has burnt so much since it was asked for a turn."""
        limit_s = LOAD_CPU_LIMIT_S if self._process.loading else self._cpu_limit_s
        if self._is_suspect:  # looked at once more before the kill: the pong may wait for our own busy loop
            self._killed_for = f"code ran for {limit_s:g} s of processor time without a pause, so it was killed"
            self._process.kill()
            return False
        self._is_suspect = burnt_s >= limit_s
        if not self._is_doubted and burnt_s >= min(SUSPECT_CPU_S, limit_s):
            self._is_doubted = True
            self._on_doubt(True)
        return True
