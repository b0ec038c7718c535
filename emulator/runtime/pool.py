"""The pool of runner processes behind the `Runners` port: one context at a time in each, grown on demand (DW-24).

Owns when a process is spawned, reused, recycled and ended. Knows no history and no frame.
"""

import asyncio
import logging
import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from emulator.contexts import BindingCalls, ContextStart, RunnersBusy, StopEvidence
from emulator.runtime.identity import figures_of
from emulator.runtime.kernels import KernelSettings, runner_config
from emulator.runtime.platform import end_process, limit_data
from emulator.runtime.process import Launcher, WorkerdFailed
from emulator.runtime.runner import Context, Runner, StopRules, version_text
from emulator.runtime.watchdog import CPU_LIMIT_S, Watchdog
from host.model.time import Clock, RealTime, timestamp

_LOG = logging.getLogger(__name__)
_MIB = 1024 * 1024
_BASE_DATA_MIB = 768  # what workerd itself reserves
_PATIENCE_S = 0.05  # beyond `runners` a process is spawned only for a start that has waited this long


def default_runners() -> int:
    """Processes kept for contexts: 8 per processor."""
    return 8 * (os.cpu_count() or 1)


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """`runners` processes are kept, more exist only while `max_contexts` at most are running. `context_memory_mib`
    bounds the JavaScript heap and, on Linux, all buffers too."""

    runners: int
    max_contexts: int = 1000
    stop: StopRules = field(default_factory=StopRules)
    context_cpu_limit_s: float = CPU_LIMIT_S
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
        self._config = runner_config(kernel, settings.context_memory_mib)
        self._settings = settings
        self._calls = calls
        self._clock = clock
        self._runners: set[Runner] = set()
        self._idle: list[Runner] = []
        self._waiting: deque[asyncio.Future[Runner]] = deque()
        self._spawning: set[asyncio.Task[None]] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self._likeliest: str | None = None
        self._watchdog = Watchdog(
            lambda: [runner for runner in self._runners if runner.is_busy], real_time, settings.context_cpu_limit_s
        )

    async def open(self) -> None:
        """Spawn the first runner and wait for it. Raises `WorkerdFailed`."""
        self._offer(await self._spawn())
        self._watchdog.start()

    async def close(self) -> None:
        """End every process; starts that still wait are refused."""
        self._is_closed = True
        self._watchdog.close()
        self._refuse("the host is stopping")
        for task in self._spawning:
            task.cancel()
        await asyncio.gather(*self._spawning, return_exceptions=True)
        await asyncio.gather(*(runner.end() for runner in self._runners), *self._ending, return_exceptions=True)

    async def start(
        self,
        start: ContextStart,
        on_frame: Callable[[str], None],
        on_lost: Callable[[StopEvidence, str], None],
    ) -> Context:
        runner = await self._take()
        self._likeliest = version_text(start.version)
        return runner.start(start, on_frame, on_lost)

    async def end_lost(self, pid: int, process_started: str) -> StopEvidence:
        await end_process(pid, process_started)
        return StopEvidence(pid, process_started, "lost_host", None, timestamp(self._clock.now_ms()))

    def census(self) -> tuple[tuple[int, int], ...]:
        """Pid and number of contexts of every runner, for people."""
        return tuple((runner.pid, int(runner.is_busy)) for runner in self._runners)

    def runner_is_idle(self, runner: Runner) -> None:
        if self._must_recycle(runner):
            self._replace(runner)
        elif not self._waiting and len(self._runners) > self._settings.runners:
            self._end(runner)
        else:
            self._offer(runner)

    def runner_has_ended(self, runner: Runner) -> None:
        self._runners.discard(runner)
        if runner in self._idle:
            self._idle.remove(runner)
        self._grow()

    async def _take(self) -> Runner:
        if self._is_closed:
            raise RunnersBusy("the host is stopping")
        if self._idle:
            runner = self._idle.pop()
            self._grow()
            return runner
        waiter: asyncio.Future[Runner] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        self._grow()
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self.runner_is_idle(waiter.result())
            raise

    def _offer(self, runner: Runner) -> None:
        """Give a free runner to the start that has waited longest, or keep it for the next one."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(runner)
                return
        self._idle.append(runner)
        if self._likeliest is not None:
            runner.prepare(self._likeliest)

    def _grow(self, *, is_patient: bool = True) -> None:
        """Spawn for starts that wait, and one spare when none is idle."""
        if self._is_closed:
            return
        wanted = len(self._waiting) if self._waiting else 1 - len(self._idle)
        missing = min(wanted, os.cpu_count() or 1) - len(self._spawning)
        for _ in range(missing):
            count = len(self._runners) + len(self._spawning)
            if count >= self._settings.max_contexts:
                break
            if count >= self._settings.runners and is_patient:
                asyncio.get_running_loop().call_later(_PATIENCE_S, self._grow_beyond)
                break
            self._spawn_for(None)

    def _grow_beyond(self) -> None:
        if self._waiting:
            self._grow(is_patient=False)

    def _spawn_for(self, replaced: Runner | None) -> None:
        task = asyncio.create_task(self._add(replaced))
        self._spawning.add(task)
        task.add_done_callback(self._spawned)

    def _spawned(self, task: asyncio.Task[None]) -> None:
        self._spawning.discard(task)
        if self._waiting:
            self._grow()

    async def _add(self, replaced: Runner | None) -> None:
        try:
            runner = await self._spawn()
        except WorkerdFailed as failure:
            _LOG.error("no runner: %s", failure)
            self._refuse(str(failure))
        else:
            self._offer(runner)
        finally:
            if replaced is not None:
                self._end(replaced)

    async def _spawn(self) -> Runner:
        rules = self._settings.stop
        runner = await Runner.spawn(self._launcher, self._config, rules, self._clock, self._calls, self)
        limit_data(runner.pid, (_BASE_DATA_MIB + self._settings.context_memory_mib) * _MIB)
        self._runners.add(runner)
        return runner

    def _must_recycle(self, runner: Runner) -> bool:
        if runner.is_demoted or runner.started_count >= self._settings.recycle_after:
            return True
        figures = figures_of(runner.pid)
        return figures is None or figures.rss_bytes > self._settings.recycle_rss_mib * _MIB

    def _replace(self, runner: Runner) -> None:
        """Recycle: the successor comes first, unless enough others are free."""
        if self._is_closed or (self._idle and not self._waiting):
            self._end(runner)
        else:
            self._spawn_for(runner)

    def _end(self, runner: Runner) -> None:
        self._runners.discard(runner)
        task = asyncio.create_task(runner.end())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def _refuse(self, why: str) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_exception(RunnersBusy(why))
