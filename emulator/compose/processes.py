"""The processes of the host and what they cost, for the management listener. Starts and ends none."""

import os
from collections.abc import Callable, Iterable

from emulator.management.parts import ProcessFigures
from emulator.runtime.identity import figures_of


class HostProcesses:
    """The host itself, its gateway and its runners; `runners` gives pid and number of contexts of each."""

    def __init__(self, gateway: Callable[[], int | None], runners: Callable[[], Iterable[tuple[int, int]]]) -> None:
        self._gateway = gateway
        self._runners = runners

    def processes(self) -> tuple[ProcessFigures, ...]:
        found = [_figures("host", os.getpid(), None)]
        gateway = self._gateway()
        if gateway is not None:
            found.append(_figures("gateway", gateway, None))
        return (*found, *(_figures("runner", pid, contexts) for pid, contexts in self._runners()))


def _figures(role: str, pid: int, contexts: int | None) -> ProcessFigures:
    figures = figures_of(pid)
    if figures is None:
        return ProcessFigures(role, pid, None, None, contexts)
    return ProcessFigures(role, pid, figures.rss_bytes, round(figures.cpu_s * 1000), contexts)
