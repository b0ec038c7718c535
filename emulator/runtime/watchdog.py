"""Finds runners whose isolate spins, burning processor time without a turn of the event loop."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from emulator.runtime.identity import figures_of
from emulator.runtime.runner import Runner
from host.model.time import RealTime

CPU_LIMIT_S = 10.0
_LOOK_EVERY_S = 0.25
_DEMOTED_AFTER_S = 0.5


@dataclass(slots=True)
class Watch:
    """What is known of one runner: `cpu_s` when its loop last turned, and the pongs it had sent by then."""

    cpu_s: float
    pongs: int


class Watchdog:
    """Looks at busy runners; one that burnt `cpu_limit_s` without a turn of its event loop is killed, and long before
    that it has to let others run first.

    Processor time counts, not real time: a loaded machine is not taken for a loop.
    """

    def __init__(self, busy: Callable[[], Iterable[Runner]], real_time: RealTime, cpu_limit_s: float) -> None:
        self._busy = busy
        self._real_time = real_time
        self._cpu_limit_s = cpu_limit_s
        self._watches: dict[Runner, Watch] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while True:
            await self._real_time.sleep_s(_LOOK_EVERY_S)
            self.look()

    def look(self) -> None:
        """One look at every busy runner."""
        busy = list(self._busy())
        self._watches = {runner: self._watches[runner] for runner in busy if runner in self._watches}
        for runner in busy:
            self._look_at(runner)

    def _look_at(self, runner: Runner) -> None:
        figures = figures_of(runner.pid)
        if figures is None:
            return
        watch = self._watches.get(runner)
        if watch is None or watch.pongs != runner.pongs:
            self._watches[runner] = Watch(figures.cpu_s, runner.pongs)
            runner.send("!ping 0")
            return
        burnt_s = figures.cpu_s - watch.cpu_s
        if burnt_s >= self._cpu_limit_s:
            runner.kill(f"the code ran for {self._cpu_limit_s:g} s of processor time without a pause")
        elif burnt_s >= _DEMOTED_AFTER_S and not runner.is_demoted:
            runner.demote()
