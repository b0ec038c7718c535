"""Finds runners that spin, contexts that hang and shared processes that grow. Knows no pool and no history.

Processor time counts, not real time: a loaded machine is not taken for a loop.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from emulator.runtime.identity import figures_of
from emulator.runtime.runner import Context, Runner
from host.model.time import RealTime

CPU_LIMIT_S = 10.0
SHARED_CPU_LIMIT_S = 0.2
"""Processor time without a turn of the event loop that a context may cost those it shares a process with: with the
looks before and after it they are held up for at most 0.35 s."""
_LOOK_EVERY_S = 0.05
_LOOKS_TO_SOLITARY = 5
_DEMOTED_AFTER_S = 0.5


@dataclass(frozen=True, slots=True)
class WatchRules:
    """`cpu_limit_s` of processor time without a pause for a context alone in its process. `wall_limit_s` of real time
    without a frame or a call, None for ever. `shared_rss_bytes` is what a shared process may come to."""

    cpu_limit_s: float = CPU_LIMIT_S
    wall_limit_s: float | None = None
    shared_rss_bytes: int = 384 * 1024 * 1024


@dataclass(slots=True)
class Watch:
    """What is known of one runner: its turns, and its processor time when the last was seen or another asked for."""

    cpu_s: float
    turns: int
    is_asked: bool = False
    is_suspect: bool = False


class Watchdog:
    """Looks at runners with contexts. One alone in its process that does not pause has to let others run first, and is
    killed in the end; a shared one is killed at once. `on_spin` is told of either as soon as it is certain."""

    def __init__(
        self,
        busy: Callable[[], Iterable[Runner]],
        real_time: RealTime,
        rules: WatchRules,
        on_spin: Callable[[Runner], None],
    ) -> None:
        self._busy = busy
        self._real_time = real_time
        self._rules = rules
        self._on_spin = on_spin
        self._watches: dict[Runner, Watch] = {}
        self._signs: dict[Context, tuple[int, float]] = {}
        self._cutting: set[asyncio.Task[None]] = set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    def close(self) -> None:
        for task in (self._task, *self._cutting):
            if task is not None:
                task.cancel()

    async def _run(self) -> None:
        looks = 0
        while True:
            await self._real_time.sleep_s(_LOOK_EVERY_S)
            looks += 1
            busy = list(self._busy())
            self._watches = {runner: self._watches[runner] for runner in busy if runner in self._watches}
            for runner in busy:
                if runner.is_shared or looks % _LOOKS_TO_SOLITARY == 0:
                    self._look_at(runner)
            if self._rules.wall_limit_s is not None and looks % _LOOKS_TO_SOLITARY == 0:
                self._look_for_hanging(busy, self._rules.wall_limit_s)

    def _look_at(self, runner: Runner) -> None:
        figures = figures_of(runner.pid)
        if figures is None:
            return
        watch = self._watches.get(runner)
        if watch is None or watch.turns != runner.turns:
            has_burnt = watch is None or watch.cpu_s != figures.cpu_s
            watch = self._watches[runner] = Watch(figures.cpu_s, runner.turns)
        else:
            has_burnt = watch.cpu_s != figures.cpu_s
        if watch.is_asked:
            self._judge(runner, watch, figures.cpu_s - watch.cpu_s)
        elif has_burnt:  # a process that did nothing since its last turn is not even asked
            watch.is_asked, watch.cpu_s = True, figures.cpu_s
            runner.send("!ping 0")
        if runner.is_shared and figures.rss_bytes > self._rules.shared_rss_bytes:
            runner.kill("the contexts of one process took too much memory together")

    def _judge(self, runner: Runner, watch: Watch, burnt_s: float) -> None:
        """It has burnt so much since it was asked for a turn."""
        if not runner.is_shared:
            self._judge_solitary(runner, burnt_s)
            return
        if watch.is_suspect:  # looked at once more before the kill: the pong may wait for our own busy loop
            self._on_spin(runner)
            runner.kill("code in its process ran without a pause, its own or that of a context beside it")
        watch.is_suspect = burnt_s >= SHARED_CPU_LIMIT_S

    def _judge_solitary(self, runner: Runner, burnt_s: float) -> None:
        limit_s = self._rules.cpu_limit_s
        if burnt_s >= min(limit_s, _DEMOTED_AFTER_S) and not runner.is_demoted:
            self._on_spin(runner)
            runner.demote()
        if burnt_s >= limit_s:
            runner.kill(f"the code ran for {limit_s:g} s of processor time without a pause")

    def _look_for_hanging(self, busy: Iterable[Runner], limit_s: float) -> None:
        now_s = self._real_time.monotonic_s()
        known, self._signs = self._signs, {}
        for context in (context for runner in busy for context in runner.contexts if context.is_live):
            signs, since_s = known.get(context, (-1, now_s))
            self._signs[context] = (signs, since_s) if signs == context.signs else (context.signs, now_s)
            if signs == context.signs and now_s - since_s >= limit_s:
                task = asyncio.create_task(context.cut(f"the code gave no sign for {limit_s:g} s"))
                self._cutting.add(task)
                task.add_done_callback(self._cutting.discard)
