"""The fenced run store: one row per run, every change a compare-and-set (RS). Knows no Workflow and no step."""

from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import TypeVar

from emulator.d1 import Database
from emulator.runstore import admission, changes, inputs, persisting
from emulator.runstore.address import RunAddress
from emulator.runstore.admission import Admitted
from emulator.runstore.changes import Liveness, Terminalization
from emulator.runstore.gateway import Gateway
from emulator.runstore.inputs import (
    Expectation,
    InitialAdmission,
    InitialTerminalization,
    LifecyclePatch,
    Replacement,
)
from emulator.runstore.persisting import SnapshotWrite
from emulator.runstore.queries import queries_for
from emulator.runstore.rows import RunRow
from emulator.runstore.scopes import StoredRunScope, current_admission, current_leg
from host.model.faults import FaultPoints

T = TypeVar("T")


class Recovery(StrEnum):
    """What follows when a leg is known to have stopped (RS-21)."""

    REPLAY = "replay"
    SETTLE = "settle"


class FencedRunStore:
    """The whole capability on one database; the tables carry `table_prefix`.

    Every method raises `RunStoreError`, and `host.sqlite.DatabaseError` when the database tells that it wrote nothing.
    """

    def __init__(
        self,
        database: Database,
        table_prefix: str = "",
        recovery: Recovery | str = Recovery.REPLAY,
        faults: FaultPoints | None = None,
    ) -> None:
        self.recovery = Recovery(recovery)
        self._gateway = Gateway(database, queries_for(table_prefix), faults or FaultPoints.none())

    async def read_snapshot(self, address: RunAddress) -> RunRow | None:
        """The raw row and its lifecycle text, by one statement; None when there is no row (RS-02, RS-10)."""
        inputs.require_address(address)
        return await self._gateway.read_row(address)

    async def with_initial_admission(
        self, admitting: InitialAdmission, create_run: Callable[[], Awaitable[T]]
    ) -> Admitted[T]:
        """Call `create_run` once in an admission scope; never start what it returns (RS-11, RS-12).

        Raises `RunNotAdmittedError` where a run or a foreign reservation stands, `AdmissionBrokenError` for a broken
        rule, `RunOutcomeUnreadableError` when nobody can tell.
        """
        return await admission.admit(self._gateway, admitting, create_run)

    async def terminalize_initial_admission(self, request: InitialTerminalization) -> Terminalization:
        """End an admitted start by one compare-and-set of its initial row (RS-13).

        Raises `RunLifecycleBlockedError` beside a disputed operation.
        """
        return await changes.terminalize(self._gateway, request)

    async def touch_run(self, address: RunAddress, now: str) -> Liveness | None:
        """Set `updated_at` alone on an unsettled row, and tell what the row holds (RS-20).

        None is no evidence; this store, whose guard refuses a settled run's writes, never answers it.
        """
        return await changes.touch(self._gateway, address, now)

    async def replace_snapshot(self, expected_row: RunRow, replacement: Replacement) -> bool:
        """Write the bytes given iff every column is as expected; outside the settled-row guard (RS-30)."""
        return await changes.replace(self._gateway, expected_row, replacement)

    async def patch_run_lifecycle(self, address: RunAddress, expected: Expectation, patch: LifecyclePatch) -> bool:
        """Write the lifecycle, `timestamp` and `updated_at` alone, iff the row is as expected (RS-40)."""
        return await changes.patch(self._gateway, address, expected, patch)

    async def with_stored_run(self, scope: StoredRunScope, operation: Callable[[], Awaitable[T]]) -> T:
        """Run a whole leg inside the caller's own scope object (RS-50)."""
        token = current_leg.set(scope)
        try:
            return await operation()
        finally:
            current_leg.reset(token)

    async def persist_snapshot(self, write: SnapshotWrite) -> None:
        """An ordinary write, under the settled-row guard; inside an admission scope, its initial write (RS-60).

        Raises `RunSettledConflictError` and `RunStateNotStorableError`, nothing written.
        """
        scope = current_admission.get()
        if scope is not None:
            await admission.write_initial(self._gateway, scope, write)
        else:
            await persisting.persist(self._gateway, write)
