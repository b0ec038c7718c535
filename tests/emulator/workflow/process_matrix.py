"""Kills the runner, and the gateway, at every occasion of every fault point of the engine, on real workerd.

`python -m tests.emulator.workflow.process_matrix` prints a matrix for each: kills survived, by scenario and point.
"""

import asyncio
import logging
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from emulator.workflow.retention import KEPT_MS
from tests.emulator.workflow.fault_matrix import AT_START, POINTS
from tests.emulator.workflow.hosts import WORKFLOW
from tests.emulator.workflow.on_workerd import SCENARIOS, KillingFaults, Rig
from tests.emulator.workflow.scenarios import complaints, drive

Victim = Literal["runner", "gateway"]
LIVE_POINTS = tuple(point for point in POINTS if point not in AT_START)
_LIMIT_S = 60.0


async def live(
    rig: Rig, folder: Path, victim: Victim, name: str, point: str | None, nth: int
) -> tuple[KillingFaults, list[str]]:
    """One host from a create to the deletion of its Workflow, a process killed on the way; what is wrong then."""
    pids: Callable[[], list[int]] = rig.runners if victim == "runner" else rig.gateways
    faults, scenario = KillingFaults(point, nth, pids), SCENARIOS[name]
    async with (
        asyncio.timeout(_LIMIT_S),
        rig.boot(folder, name, faults, by_http=victim == "gateway") as (host, reruns),
    ):
        await drive(scenario, host, folder)
        await host.advance(KEPT_MS / 1000)
        assert await host.engine.inspection.instances() == ()
        await host.engine.gates.retire(WORKFLOW)
    wrong = complaints(scenario, folder, may_repeat=victim == "runner" and point is not None)
    wrong += [f"the effect of {step!r} ran though its step was settled" for step in reruns]
    async with asyncio.timeout(_LIMIT_S):
        await rig.settle(faults.killed)
    return faults, wrong


async def _row(rig: Rig, base: Path, victim: Victim, name: str) -> tuple[list[int], list[str]]:
    folder = base / "whole"
    folder.mkdir(parents=True)
    faults, wrong = await live(rig, folder, victim, name, None, 1)
    cells = dict.fromkeys(LIVE_POINTS, 0)
    for point in LIVE_POINTS:
        for nth in range(1, faults.reached[point] + 1):
            folder = base / f"{point}-{nth}"
            folder.mkdir()
            disturbed, found = await live(rig, folder, victim, name, point, nth)
            wrong += [f"{victim}, {name}, {point} {nth}: {each}" for each in found]
            cells[point] += bool(disturbed.killed)  # an event may come before its wait or after: not all are reached
    wrong += [
        f"{victim}, {name}, {point}: nothing was killed"
        for point in LIVE_POINTS
        if faults.reached[point] and not cells[point]
    ]
    return list(cells.values()), wrong


async def matrix(victims: tuple[Victim, ...] = ("runner", "gateway")) -> list[str]:
    """Print a line a scenario, a column a point, for each victim; what was wrong."""
    wrong: list[str] = []
    for number, point in enumerate(LIVE_POINTS, 1):
        print(f"  {number:>2} {point.removeprefix('workflow.')}")
    place = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=place) as folder:
        async with Rig.open(Path(folder)) as rig:
            for victim in victims:
                print(f"{victim:28}" + "".join(f"{number:>4}" for number in range(1, len(LIVE_POINTS) + 1)))
                for name in SCENARIOS:
                    cells, found = await _row(rig, Path(folder) / victim / name, victim, name)
                    wrong += found
                    print(f"{name:28}" + "".join(f"{times or '-':>4}" for times in cells), flush=True)
    print("\n".join(wrong) if wrong else "every history went on as if nothing had been killed")
    return wrong


if __name__ == "__main__":
    logging.disable(logging.WARNING)  # that a process ended is what is done here
    sys.exit(1 if asyncio.run(matrix()) else 0)
