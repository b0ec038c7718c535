"""A process that forks hosts which are killed at a named point: a JSON command a line in, a wait status a line out.

Forked from one warm interpreter, because a new one for each kill would take most of the time.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

from emulator.workflow import ErrorName, InstanceRefused
from host.model.faults import FaultPoints
from host.model.time import ControlledClock
from host.ports import BackendError
from tests.emulator.workflow.bodies import never_ends
from tests.emulator.workflow.hosts import START_MS, WORKFLOW, Host, boot
from tests.emulator.workflow.isolates import Document, Step

_LONG_S = 2_592_000


class _Diary:
    """Effects as lines of a file, so that they are counted whatever dies."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "effects"

    def write(self, line: str) -> int:
        with self._path.open("a") as file:
            file.write(line + "\n")
        return self._path.read_text().splitlines().count(line)


async def _run(folder: Path, boot_number: int, point: str | None, nth: int) -> None:
    diary = _Diary(folder)

    async def order(params: Document, step: Step) -> Document:
        async def reserve() -> Document:
            return {"reserved": diary.write("reserve")}

        async def charge() -> Document:
            if diary.write("charge") == 1:
                raise RuntimeError("card declined")
            return {"charged": 1}

        async def mail() -> Document:
            diary.write("mail")
            return None

        await step.do("reserve", reserve)
        await step.do("charge", charge, {"maxAttempts": 3, "initialDelaySeconds": 30})
        paid = await step.wait("paid", "paid", _LONG_S)
        await step.sleep("ship", 60)
        await step.do("mail", mail)
        return paid

    async def either(params: Document, step: Step) -> Document:
        return await (never_ends if params else order)(params, step)

    faults = FaultPoints()
    if point is not None:
        faults.arm(point, nth)
    clock = ControlledClock.frozen(START_MS + boot_number * 3_600_000)
    try:
        host = await boot(folder / "e.sqlite", clock, faults=faults, prefix=f"b{boot_number}-", Flow=either)
    except BackendError:
        return
    await host.deploy("v1")
    await _drive(host, folder)
    await host.engine.gates.retire(WORKFLOW)
    assert await host.engine.inspection.instances() == ()
    await host.close()


async def _drive(host: Host, folder: Path) -> None:
    """Do what is not done yet; every call may have been made by a host that died."""
    await _allow(ErrorName.INSTANCE_EXISTS, host.create("order"))
    for _ in range(20):
        await host.advance(60)
        match (await host.status("order")).status:
            case "waiting":
                await host.send("paid", {"amount": 5}, "order")
            case "complete":
                break
    history = await host.history("order")
    evidence = [context.stop is not None for context in history.contexts]
    steps = [[step.name, step.state, step.attempts] for step in history.steps]
    report = {"output": await host.output("order"), "steps": steps, "is_proven": all(evidence)}
    (folder / "report").write_text(json.dumps(report))
    await _allow(ErrorName.INSTANCE_EXISTS, host.create("spinner", {"spin": 1}))
    if (await host.status("spinner")).status != "terminated":
        await host.until(lambda: bool(host.runners.started) and host.runners.last.start.instance_id == "spinner")
        await host.terminate("spinner")
    assert (await host.status("spinner")).status == "terminated"


async def _allow(name: ErrorName, call: "asyncio.Future[str] | object") -> None:
    try:
        await call  # type: ignore[misc]
    except InstanceRefused as refused:
        if refused.name is not name:
            raise


def main() -> None:
    for line in sys.stdin:
        folder, boot_number, point, nth = json.loads(line)
        pid = os.fork()
        if pid == 0:
            try:
                asyncio.run(_run(Path(folder), boot_number, point, nth))
            except BaseException as error:
                (Path(folder) / "crash").write_text(repr(error))
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
