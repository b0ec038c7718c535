"""The processes of the host and what they cost, for the management listener. Starts and ends none."""

import os
from collections.abc import Callable, Iterable
from dataclasses import replace

from emulator.management.parts import ProcessFigures
from emulator.runtime.identity import figures_of


class HostProcesses:
    """The host itself, the processes of its gateway, of which `gateway` gives pid and the one Version of a ward, and
    its runners, of which `runners` gives pid and number of contexts."""

    def __init__(
        self,
        gateway: Callable[[], Iterable[tuple[int, str | None]]],
        runners: Callable[[], Iterable[tuple[int, int]]],
    ) -> None:
        self._gateway = gateway
        self._runners = runners

    def processes(self) -> tuple[ProcessFigures, ...]:
        found = [_figures("host", os.getpid(), None)]
        for pid, version_uid in self._gateway():
            role = "gateway" if version_uid is None else "ward"
            found.append(replace(_figures(role, pid, None), version_uid=version_uid))
        return (*found, *(_figures("runner", pid, contexts) for pid, contexts in self._runners()))


def _figures(role: str, pid: int, contexts: int | None) -> ProcessFigures:
    figures = figures_of(pid)
    if figures is None:
        return ProcessFigures(role, pid, None, None, contexts)
    return ProcessFigures(role, pid, figures.rss_bytes, round(figures.cpu_s * 1000), contexts)
