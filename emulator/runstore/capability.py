"""What the runtime may ask of a run store, member by member (RS-14): it does less without one, never something else."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar, runtime_checkable

from emulator.runstore.address import RunAddress
from emulator.runstore.changes import Liveness
from emulator.runstore.inputs import Expectation, LifecyclePatch, Replacement
from emulator.runstore.rows import RunRow
from emulator.runstore.scopes import StoredRunScope

T = TypeVar("T")


class ReadsRuns(Protocol):
    """Every run store."""

    async def read_snapshot(self, address: RunAddress) -> RunRow | None: ...


@runtime_checkable
class TouchesRuns(Protocol):
    """Marks an executing leg's row live."""

    async def touch_run(self, address: RunAddress, now: str) -> Liveness | None: ...


@runtime_checkable
class ReplacesSnapshots(Protocol):
    """Settles by an exact row."""

    async def replace_snapshot(self, expected_row: RunRow, replacement: Replacement) -> bool: ...


@runtime_checkable
class PatchesLifecycles(Protocol):
    """Writes a lifecycle alone."""

    async def patch_run_lifecycle(self, address: RunAddress, expected: Expectation, patch: LifecyclePatch) -> bool: ...


@runtime_checkable
class GuardsStoredRuns(Protocol):
    """Refuses to insert a row that a leg has already stored."""

    async def with_stored_run(self, scope: StoredRunScope, operation: Callable[[], Awaitable[T]]) -> T: ...
