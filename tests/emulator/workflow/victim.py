"""A process that forks hosts which are killed at a named point: a JSON command a line in, a wait status a line out.

Forked from one warm interpreter, because a new one for each kill would take most of the time.
"""

import asyncio
import json
import os
import sys
from collections import Counter
from pathlib import Path

from emulator.workflow.retention import KEPT_MS
from host.model.faults import FaultPoints
from host.model.time import ControlledClock
from host.ports import BackendError
from tests.emulator.workflow.hosts import START_MS, WORKFLOW, boot
from tests.emulator.workflow.scenarios import SCENARIOS, Diary, drive


class CountedFaults(FaultPoints):
    """Counts how often each point is reached."""

    def __init__(self) -> None:
        super().__init__()
        self.reached: Counter[str] = Counter()

    def reach(self, name: str) -> None:
        self.reached[name] += 1
        super().reach(name)


async def _run(folder: Path, boot_number: int, name: str, point: str | None, nth: int) -> None:
    """One host: what is not done yet, then retention and the deletion of the Workflow."""
    scenario = SCENARIOS[name]
    faults = CountedFaults()
    if point is not None:
        faults.arm(point, nth)
    clock = ControlledClock.frozen(START_MS + boot_number * 3_600_000)
    body = scenario.body(Diary(folder))
    try:
        host = await boot(folder / "e.sqlite", clock, faults=faults, prefix=f"b{boot_number}-", Flow=body)
    except BackendError:
        return  # the Workflow was purged before the kill
    await host.deploy("v1")
    if not (folder / "report").exists():
        await drive(scenario, host, folder)
    await host.advance(KEPT_MS / 1000)
    assert await host.engine.inspection.instances() == ()
    await host.engine.gates.retire(WORKFLOW)
    await host.close()
    (folder / "reached").write_text(json.dumps(faults.reached))


def main() -> None:
    for line in sys.stdin:
        folder, boot_number, name, point, nth = json.loads(line)
        pid = os.fork()
        if pid == 0:
            try:
                asyncio.run(_run(Path(folder), boot_number, name, point, nth))
            except BaseException as error:
                (Path(folder) / "crash").write_text(repr(error))
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
