"""A process that is killed at a fault point of one operation: `victim.py FILE OPERATION POINT`."""

import asyncio
import sys
from pathlib import Path

from emulator.d1 import Database, FileDriver
from emulator.runstore import (
    Expectation,
    FencedRunStore,
    InitialAdmission,
    InitialTerminalization,
    LifecyclePatch,
    Replacement,
    Reservation,
    RunRow,
)
from emulator.runstore.schema import migrations
from host.model.faults import FaultPoints
from tests.emulator.runstore.stores import RUN, T0, T1, snapshot, write

APPLICATION_ID = 0x6B696C6C
FIRST = snapshot('{"version":1,"revision":1,"attemptToken":"t"}', "pending")
INITIAL = RunRow(RUN.workflow_id, RUN.run_id, None, FIRST, T0, T0)
REPLACED = snapshot('{"version":1,"revision":7}')
PATCHED = FIRST.replace('"revision":1', '"revision":2')


async def open_store(file: Path, faults: FaultPoints) -> tuple[FileDriver, FencedRunStore]:
    driver = await FileDriver.open(file, application_id=APPLICATION_ID, migrations=migrations())
    return driver, FencedRunStore(Database(driver), faults=faults)


async def act(store: FencedRunStore, operation: str) -> object:
    """The operation, on the initial row."""
    match operation:
        case "admit":
            admission = InitialAdmission(RUN, Reservation("key", "ours"))
            await store.with_initial_admission(admission, lambda: store.persist_snapshot(write(FIRST, updated_at=T0)))
        case "patch":
            expected = Expectation("pending", 1, '{"version":1,"revision":1,"attemptToken":"t"}')
            change = LifecyclePatch('{"version":1,"revision":2,"attemptToken":"t"}', 1, T1)
            return await store.patch_run_lifecycle(RUN, expected, change)
        case "replace":
            return await store.replace_snapshot(INITIAL, Replacement(REPLACED, T1))
        case "end":
            return (await store.terminalize_initial_admission(InitialTerminalization(INITIAL, T1, True))).kind
        case "persist":
            await store.persist_snapshot(write(REPLACED))
    return None


async def main() -> None:
    file, operation, point = sys.argv[1:]
    faults = FaultPoints()
    driver, store = await open_store(Path(file), faults)
    if operation != "admit":
        await act(store, "admit")
    faults.arm(point)
    await act(store, operation)
    await driver.close()


if __name__ == "__main__":
    asyncio.run(main())
