"""The processes of the host and what they cost, for the management listener. Starts and ends none."""

import os
from collections.abc import Callable, Iterable

from emulator.management.parts import ProcessFigures
from emulator.runtime.identity import figures_of


class HostProcesses:
    """The host itself, the processes of its gateway and its runners, of each of which `runners` gives pid and number of
    contexts."""

    def __init__(self, gateway: Callable[[], Iterable[int]], runners: Callable[[], Iterable[tuple[int, int]]]) -> None:
        self._gateway = gateway
        self._runners = runners

    def processes(self) -> tuple[ProcessFigures, ...]:
        found = [_figures("host", os.getpid(), None)]
        found += [_figures("gateway", pid, None) for pid in self._gateway()]
        return (*found, *(_figures("runner", pid, contexts) for pid, contexts in self._runners()))


def _figures(role: str, pid: int, contexts: int | None) -> ProcessFigures:
    figures = figures_of(pid)
    if figures is None:
        return ProcessFigures(role, pid, None, None, contexts)
    return ProcessFigures(role, pid, figures.rss_bytes, round(figures.cpu_s * 1000), contexts)
