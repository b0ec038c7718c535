"""Kills the runner, and the gateway, at every occasion of every fault point of the engine, on real workerd.

Where no context executes the idle runners are killed, so that there is a victim at every point of every scenario.
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
    try:
        async with (
            asyncio.timeout(_LIMIT_S),
            rig.boot(folder, name, faults, by_http=victim == "gateway") as (host, reruns),
        ):
            await drive(scenario, host, folder)
            await host.advance(KEPT_MS / 1000)
            assert await host.engine.inspection.instances() == ()
            await host.engine.gates.retire(WORKFLOW)
    finally:
        async with asyncio.timeout(_LIMIT_S):
            await rig.settle(faults.killed)
    wrong = complaints(scenario, folder, may_repeat=victim == "runner" and point is not None)
    return faults, [*wrong, *(f"the effect of {step!r} ran though its step was settled" for step in reruns)]


async def _row(rig: Rig, base: Path, victim: Victim, name: str) -> tuple[list[int], list[str]]:
    folder = base / "whole"
    folder.mkdir(parents=True)
    faults, found = await live(rig, folder, victim, name, None, 1)
    wrong = [f"{victim}, {name}: {each}" for each in found]
    for point in LIVE_POINTS:
        for nth in range(1, faults.reached[point] + 1):
            folder = base / f"{point}-{nth}"
            folder.mkdir()
            found = await _kill(rig, folder, victim, name, point, nth)
            wrong += [f"{victim}, {name}, {point} {nth}: {each}" for each in found]
    return [faults.reached[point] for point in LIVE_POINTS], wrong


async def _kill(rig: Rig, folder: Path, victim: Victim, name: str, point: str, nth: int) -> list[str]:
    """What is wrong after a kill at an occasion that an undisturbed run has reached, and so has this one up to there."""
    try:
        faults, wrong = await live(rig, folder, victim, name, point, nth)
    except (AssertionError, TimeoutError) as error:
        return [f"{type(error).__name__} {error}"]
    return wrong if faults.killed else [*wrong, "nothing was killed"]


async def matrix(victims: tuple[Victim, ...] = ("runner", "gateway")) -> list[str]:
    """Print a line a scenario, a column a point, for each victim; what was wrong."""
    wrong: list[str] = []
    kills = 0
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
                    kills += sum(cells)
                    print(f"{name:28}" + "".join(f"{times or '-':>4}" for times in cells), flush=True)
    print(
        "\n".join(wrong) if wrong else f"after each of {kills} kills the history went on as if nothing had been killed"
    )
    return wrong


if __name__ == "__main__":
    logging.disable(logging.WARNING)  # that a process ended is what is done here
    sys.exit(1 if asyncio.run(matrix()) else 0)
