"""Which process a pid stands for, and what it costs. Uses the standard library alone: the reaper imports it too."""

import os
import sys
from dataclasses import dataclass

PROC = "/proc"


@dataclass(frozen=True, slots=True)
class ProcessFigures:
    """A process as the kernel counts it: identity, processor time since its start, resident memory."""

    started: str
    cpu_s: float
    rss_bytes: int


def figures_of(pid: int) -> ProcessFigures | None:
    """The figures of a live process; None when there is none or only its exit status is left."""
    return _figures_from_proc(pid) if sys.platform == "linux" else _figures_from_ps(pid)


def process_started(pid: int) -> str | None:
    """A text that with `pid` names one process for ever: its start time, and the boot it is counted from."""
    figures = figures_of(pid)
    return None if figures is None else figures.started


def _figures_from_proc(pid: int) -> ProcessFigures | None:
    try:
        with open(f"{PROC}/{pid}/stat", "rb") as file:  # noqa: PTH123 (half the cost, and this is polled)
            text = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text[text.rindex(b")") + 2 :].split()
    if fields[0] in (b"Z", b"X"):
        return None
    ticks = os.sysconf("SC_CLK_TCK")
    cpu_s = (int(fields[11]) + int(fields[12])) / ticks
    return ProcessFigures(f"{_boot()}:{int(fields[19])}", cpu_s, int(fields[21]) * os.sysconf("SC_PAGE_SIZE"))


def _boot() -> str:
    global _boot_id
    if _boot_id is None:
        with open(f"{PROC}/sys/kernel/random/boot_id") as file:  # noqa: PTH123
            _boot_id = file.read().strip()
    return _boot_id


_boot_id: str | None = None


def _figures_from_ps(pid: int) -> ProcessFigures | None:
    import subprocess  # a third of the reaper's start, and no need of it on Linux

    command = ["ps", "-o", "stat=,rss=,time=,lstart=", "-p", str(pid)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, env={"LC_ALL": "C"})
    told = answer.stdout.split(None, 3)
    if len(told) != 4 or told[0].startswith("Z"):
        return None
    return ProcessFigures(" ".join(told[3].split()), _seconds(told[2]), int(told[1]) * 1024)


def _seconds(clock: str) -> float:
    """`[[hh:]mm:]ss.cc` in seconds."""
    total = 0.0
    for part in clock.split(":"):
        total = total * 60 + float(part)
    return total
