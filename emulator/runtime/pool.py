"""The runner processes behind the `Runners` port: contexts alone in one, and beyond a bound together in others (DW-24).

Owns when a process is spawned, used, recycled and ended. Knows no history and no frame.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from emulator.contexts import BindingCalls, ContextStart, OnLost, RunnersBusy, StopEvidence
from emulator.runtime.context_texts import version_text
from emulator.runtime.identity import figures_of
from emulator.runtime.kernels import KernelSettings, runner_config
from emulator.runtime.platform import end_process, limit_data
from emulator.runtime.process import Launcher, WorkerdFailed
from emulator.runtime.runner import Context, Runner, StopRules
from emulator.runtime.seclusion import Seclusion
from emulator.runtime.start_queue import StartQueue, Waiting
from emulator.runtime.watchdog import CPU_LIMIT_S, Watchdog, WatchRules
from host.model.time import Clock, RealTime, timestamp

_LOG = logging.getLogger(__name__)
_MIB = 1024 * 1024
_BASE_DATA_MIB = 768  # what workerd itself reserves
_SHARED_BASE_RSS_MIB = 128
_SPAWNS_AT_ONCE = os.cpu_count() or 1
_LINGER_S = 5.0  # a shared process that became empty is kept for as long
PATIENCE_S = 0.05
"""So long a start waits for a process to itself before it shares one."""


def default_runners() -> int:
    """Processes kept for contexts: 8 per processor."""
    return 8 * (os.cpu_count() or 1)


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """`runners` contexts are alone in a process each; beyond that at most `share` are in one, unless the stop rules are
    strict. At most `max_contexts` run at once. `context_memory_mib` bounds the JavaScript heap and, on Linux, all
    buffers too. `context_wall_limit_s` of real time without a sign of life end a context, None for never."""

    runners: int
    max_contexts: int = 1000
    share: int = 16
    stop: StopRules = field(default_factory=StopRules)
    context_cpu_limit_s: float = CPU_LIMIT_S
    context_wall_limit_s: float | None = None
    context_memory_mib: int = 256
    recycle_after: int = 40
    recycle_rss_mib: int = 150


class RunnerPool:
    """See `emulator.contexts.Runners`. Use on one event loop, in the main thread."""

    def __init__(
        self,
        launcher: Launcher,
        kernel: KernelSettings,
        settings: PoolSettings,
        calls: BindingCalls,
        clock: Clock,
        real_time: RealTime,
    ) -> None:
        self._launcher = launcher
        self._tags = kernel.tags
        self._config = runner_config(kernel, settings.context_memory_mib)
        self._settings = settings
        self._calls = calls
        self._clock = clock
        self._solitary: set[Runner] = set()
        self._idle: list[Runner] = []
        self._shared: dict[Runner, None] = {}
        self._leaving: set[Runner] = set()
        self._queue = StartQueue()
        self._seclusion = Seclusion()
        self._spawning: dict[asyncio.Task[None], bool] = {}
        self._ending: set[asyncio.Task[object]] = set()
        self._is_arranging = False
        self._is_closed = False
        self._likeliest: str | None = None
        shared_rss = (_SHARED_BASE_RSS_MIB + settings.context_memory_mib) * _MIB
        rules = WatchRules(settings.context_cpu_limit_s, settings.context_wall_limit_s, shared_rss)
        self._watchdog = Watchdog(self._busy, real_time, rules, self._spins)

    async def open(self) -> None:
        """Spawn the first runner and wait for it. Raises `WorkerdFailed`."""
        self._rest(await self._spawn(1))
        self._watchdog.start()

    async def close(self) -> None:
        """End every process; starts that still wait are refused."""
        self._is_closed = True
        self._watchdog.close()
        self._queue.refuse("the host is stopping")
        for task in self._spawning:
            task.cancel()
        await asyncio.gather(*self._spawning, return_exceptions=True)
        await asyncio.gather(*(runner.end() for runner in self._runners()), *self._ending, return_exceptions=True)

    async def start(
        self,
        start: ContextStart,
        on_frame: Callable[[str], None],
        on_lost: OnLost,
    ) -> Context:
        if self._is_closed:
            raise RunnersBusy("the host is stopping")
        self._likeliest = version_text(start.version)
        must_be_alone = not self._shares or self._seclusion.requires(start)
        waiting = self._queue.add(Waiting(start, on_frame, on_lost, must_be_alone))
        asyncio.get_running_loop().call_later(PATIENCE_S, self._lose_patience, waiting)
        self._arrange()
        try:
            return await waiting.placed
        except asyncio.CancelledError:
            if waiting.placed.done() and not waiting.placed.cancelled() and waiting.placed.exception() is None:
                self._see_through(waiting.placed.result().stop())
            raise

    async def end_lost(self, pid: int, process_started: str) -> StopEvidence:
        await end_process(pid, process_started)
        return StopEvidence(pid, process_started, "lost_host", None, timestamp(self._clock.now_ms()))

    def census(self) -> tuple[tuple[int, int], ...]:
        """Pid and number of contexts of every runner, for people."""
        return tuple((runner.pid, runner.count) for runner in self._runners())

    def runner_has_room(self, runner: Runner, stopped: Context) -> None:
        if not runner.is_shared:
            self._seclusion.release(stopped.start)
        if self._is_closed or runner in self._leaving:
            return
        if runner.is_shared:
            self._shrink(runner)
        elif self._must_recycle(runner):
            self._replace(runner)
        elif len(self._solitary) > self._settings.runners and not self._queue:
            self._end(runner)
        else:
            self._rest(runner)
        self._arrange()

    def runner_has_ended(self, runner: Runner, cut: Sequence[Context]) -> None:
        self._forget(runner)
        self._leaving.discard(runner)
        for context in cut:
            if len(cut) == 1:
                self._seclusion.seclude(context.start)
            else:
                self._seclusion.seclude_once(context.start)
        self._arrange()

    @property
    def _shares(self) -> bool:
        return self._settings.share > 1 and not self._settings.stop.strict

    def _runners(self) -> tuple[Runner, ...]:
        return (*self._solitary, *self._shared, *self._leaving)

    def _busy(self) -> list[Runner]:
        return [runner for runner in self._runners() if runner.count > 0]

    def _room(self) -> int:
        """How many more contexts may run."""
        return self._settings.max_contexts - sum(runner.count for runner in self._runners())

    def _spins(self, runner: Runner) -> None:
        if runner.count == 1:
            (context,) = runner.contexts
            self._seclusion.seclude(context.start)
            if context.signs == 0:
                self._seclusion.seclude_code(context.start)

    def _lose_patience(self, waiting: Waiting) -> None:
        waiting.is_patient = False
        if not self._is_arranging and not waiting.placed.done():
            self._is_arranging = True
            asyncio.get_running_loop().call_soon(self._arrange)

    def _arrange(self) -> None:
        """Place what can be placed, then spawn for the rest."""
        self._is_arranging = False
        if self._is_closed:
            return
        if self._idle or any(self._takes_more(runner) for runner in self._shared):
            entitled = self._settings.runners - (len(self._solitary) - len(self._idle))
            self._queue.place(self._room(), entitled, self._take)
        self._grow()

    def _take(self, *, is_content_to_share: bool) -> Runner | None:
        if self._idle:
            return self._idle.pop()
        if not is_content_to_share:
            return None
        return next((runner for runner in self._shared if self._takes_more(runner)), None)

    def _takes_more(self, runner: Runner) -> bool:
        return runner.count < runner.share and runner.started_count < self._settings.recycle_after

    def _grow(self) -> None:
        """Spawn for starts that wait, and one spare to run alone in when none is idle."""
        if len(self._spawning) >= _SPAWNS_AT_ONCE:
            return
        solitary_coming = sum(not is_shared for is_shared in self._spawning.values())
        shared_coming = len(self._spawning) - solitary_coming
        entitled = self._settings.runners - (len(self._solitary) - len(self._idle))
        alone, sharing = self._queue.demand(max(0, entitled), self._room())
        spare = 1 if len(self._solitary) < self._settings.runners else 0
        wanted = max(alone, spare) - len(self._idle) - solitary_coming
        self._spawn_some(wanted, is_shared=False)
        self._spawn_some(-(-sharing // self._settings.share) - shared_coming, is_shared=True)

    def _spawn_some(self, wanted: int, *, is_shared: bool) -> None:
        for _ in range(min(wanted, _SPAWNS_AT_ONCE - len(self._spawning))):
            self._spawn_later(is_shared=is_shared)

    def _spawn_later(self, *, is_shared: bool, replaced: Runner | None = None) -> None:
        task = asyncio.create_task(self._add(self._settings.share if is_shared else 1, replaced))
        self._spawning[task] = is_shared
        task.add_done_callback(self._spawned)

    def _spawned(self, task: asyncio.Task[None]) -> None:
        del self._spawning[task]
        self._arrange()

    async def _add(self, share: int, replaced: Runner | None) -> None:
        try:
            self._rest(await self._spawn(share))
        except WorkerdFailed as failure:
            _LOG.error("no runner: %s", failure)
            self._queue.refuse(str(failure))
        finally:
            if replaced is not None:
                self._end(replaced)

    async def _spawn(self, share: int) -> Runner:
        rules, tags = self._settings.stop, self._tags
        runner = await Runner.spawn(self._launcher, self._config, rules, self._clock, self._calls, self, tags, share)
        memory_mib = self._settings.context_memory_mib * (2 if runner.is_shared else 1)
        limit_data(runner.pid, (_BASE_DATA_MIB + memory_mib) * _MIB)
        return runner

    def _rest(self, runner: Runner) -> None:
        """The runner can take a context; one alone may be told what is likely to come."""
        if runner.is_shared:
            self._shared[runner] = None
            return
        self._solitary.add(runner)
        self._idle.append(runner)
        if self._likeliest is not None and not self._queue:
            runner.prepare(self._likeliest)

    def _shrink(self, runner: Runner) -> None:
        """End a shared runner that has become empty: at once when it is used up, else unless it is used again."""
        if runner.count > 0:
            return
        if not self._takes_more(runner) or self._must_recycle(runner):
            self._end(runner)
        else:
            asyncio.get_running_loop().call_later(_LINGER_S, self._end_unused, runner, runner.started_count)

    def _end_unused(self, runner: Runner, started_count: int) -> None:
        if not self._is_closed and runner in self._shared and runner.started_count == started_count:
            self._end(runner)

    def _must_recycle(self, runner: Runner) -> bool:
        if runner.is_demoted or runner.started_count >= self._settings.recycle_after:
            return True
        figures = figures_of(runner.pid)
        return figures is None or figures.rss_bytes > self._settings.recycle_rss_mib * _MIB

    def _replace(self, runner: Runner) -> None:
        """Recycle: the successor comes first, unless enough others are free."""
        if self._idle and not self._queue:
            self._end(runner)
            return
        self._forget(runner)
        self._leaving.add(runner)
        self._spawn_later(is_shared=False, replaced=runner)

    def _forget(self, runner: Runner) -> None:
        self._solitary.discard(runner)
        self._shared.pop(runner, None)
        if runner in self._idle:
            self._idle.remove(runner)

    def _end(self, runner: Runner) -> None:
        self._forget(runner)
        self._leaving.add(runner)  # until it has ended
        self._see_through(runner.end())

    def _see_through(self, ending: Coroutine[Any, Any, object]) -> None:
        task = asyncio.create_task(ending)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
