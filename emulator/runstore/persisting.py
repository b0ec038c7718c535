"""The ordinary snapshot write, under the settled-row guard (RS-60 to RS-63) and the insert guard of a leg (RS-50)."""

from dataclasses import dataclass

from emulator.runstore import inputs
from emulator.runstore.address import RunAddress
from emulator.runstore.changes import ATTEMPTS
from emulator.runstore.errors import RunContendedError, RunSettledConflictError, RunStateNotStorableError
from emulator.runstore.gateway import PERSISTED, PERSISTING, Gateway, values_at
from emulator.runstore.rules import Verdict, judge_write, lifecycle_of, merge
from emulator.runstore.scopes import current_leg
from host.sqlite import Value


@dataclass(frozen=True, slots=True)
class SnapshotWrite:
    """One ordinary write. `created_at` counts for a new row only; a `resource_id` of None keeps the stored one."""

    address: RunAddress
    snapshot: str
    created_at: str
    updated_at: str
    resource_id: str | None = None

    def values(self) -> dict[str, Value]:
        """The parameters of its statements."""
        return {
            **values_at(self.address),
            "resource_id": self.resource_id,
            "snapshot": self.snapshot,
            "created_at": self.created_at,
            "updated_at": self.updated_at,
        }


def require_write(write: SnapshotWrite) -> None:
    """The checks that need no database. Raises `MalformedRunInputError`."""
    inputs.require_address(write.address)
    inputs.require_instant(write.created_at, "created_at")
    inputs.require_instant(write.updated_at, "updated_at")
    inputs.require_object_start(write.snapshot)


async def persist(gateway: Gateway, write: SnapshotWrite) -> None:
    """Insert or update. Raises `RunSettledConflictError`, `RunStateNotStorableError`, nothing written then."""
    require_write(write)
    queries = gateway.queries
    [stored] = await gateway.write([queries.persist], _guarded_values(write), PERSISTING, PERSISTED)
    if stored.is_applied:
        _is_stored(write.address)
        return
    for _ in range(ATTEMPTS):  # why it missed is asked in the batch of another attempt
        texts = [queries.persist, queries.judge]
        stored, judged = await gateway.write(texts, _guarded_values(write), PERSISTING, PERSISTED)
        is_storable, is_parsed, unparsed = judged.rows[0]
        if stored.is_applied:
            _is_stored(write.address)
            return
        if not is_storable:
            inputs.require_object(write.snapshot, "snapshot")
        if is_parsed == 0:
            if await _persist_over(gateway, write, str(unparsed)):
                _is_stored(write.address)
                return
            continue
        if not is_storable:
            raise RunStateNotStorableError("SQLite cannot parse the snapshot")
        raise RunSettledConflictError(
            "the run's row is gone" if is_parsed is None else "the run is settled by another writer"
        )
    raise RunContendedError("the row changed at every attempt to write it")


def _guarded_values(write: SnapshotWrite) -> dict[str, Value]:
    leg = current_leg.get()
    is_guarded = leg is not None and leg.guards(write.address)
    return {**write.values(), "may_insert": int(not is_guarded)}


async def _persist_over(gateway: Gateway, write: SnapshotWrite, unparsed: str) -> bool:
    """RS-62: decide on the lifecycle of the exact bytes, then compare and set them; false when they changed."""
    lifecycle = lifecycle_of(unparsed)
    verdict = judge_write(lifecycle, lifecycle_of(write.snapshot))
    if verdict is Verdict.REFUSED:
        raise RunSettledConflictError("the run is settled by another writer")
    values: dict[str, Value] = {
        **write.values(),
        "snapshot": merge(write.snapshot, lifecycle, verdict),
        "expected_snapshot": unparsed,
    }
    [swapped] = await gateway.write([gateway.queries.persist_unparsed], values, PERSISTING, PERSISTED)
    return swapped.is_applied


def _is_stored(address: RunAddress) -> None:
    leg = current_leg.get()
    if leg is not None and leg.is_of(address):
        leg.row_stored = True
