"""The initial admission: one write, by `create_run`, with the run's reservation in one batch (RS-11)."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from emulator.d1 import named
from emulator.runstore import inputs
from emulator.runstore.errors import RunNotAdmittedError, RunOutcomeUnreadableError, RunStateNotStorableError
from emulator.runstore.gateway import ADMITTED, ADMITTING, Gateway
from emulator.runstore.inputs import InitialAdmission
from emulator.runstore.persisting import SnapshotWrite, require_write
from emulator.runstore.rows import RunRow, row_of
from emulator.runstore.rules import scalar
from emulator.runstore.scopes import AdmissionScope, current_admission, current_leg
from emulator.runstore.texts import child, children
from host.sqlite import DatabaseError, Value

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Admitted(Generic[T]):
    """What `create_run` gave, and the row as it was stored."""

    value: T
    witness: RunRow


async def admit(gateway: Gateway, admission: InitialAdmission, create_run: Callable[[], Awaitable[T]]) -> Admitted[T]:
    """Call `create_run` once, as a plain function, in a scope that allows one initial write."""
    inputs.require_address(admission.address)
    outer = current_admission.get()
    if outer is not None and outer.is_open:
        raise outer.broken("an admission cannot hold another")
    scope = AdmissionScope(admission)
    token = current_admission.set(scope)
    try:
        value = await create_run()
    finally:
        scope.is_open = False
        current_admission.reset(token)
    witness = None if scope.write is None else await scope.write
    if scope.failure is not None:
        raise scope.failure
    if witness is None:
        raise scope.broken("create_run made no initial write")
    return Admitted(value, witness)


async def write_initial(gateway: Gateway, scope: AdmissionScope, write: SnapshotWrite) -> None:
    """The scope's one write. Raises `AdmissionBrokenError`, `RunNotAdmittedError`, `RunOutcomeUnreadableError`."""
    require_write(write)
    scope.enter_write(write.address)
    _require_initial(scope, write.snapshot)
    scope.write = asyncio.ensure_future(_insert(gateway, scope.admission, write))
    row = await asyncio.shield(scope.write)
    leg = current_leg.get()
    if leg is not None and leg.is_of(row.address):
        leg.row_stored = True


def _require_initial(scope: AdmissionScope, snapshot: str) -> None:
    """Status pending, no active paths."""
    inputs.require_object(snapshot, "snapshot")
    if scalar(child(snapshot, "status")) != "pending":
        raise scope.broken("an initial snapshot is pending")
    paths = child(snapshot, "activePaths")
    if paths not in (None, "null") and paths is not None and (paths[0] not in "{[" or children(paths)):
        raise scope.broken("an initial snapshot has no active paths")


async def _insert(gateway: Gateway, admission: InitialAdmission, write: SnapshotWrite) -> RunRow:
    queries, reservation = gateway.queries, admission.reservation
    values: dict[str, Value] = {
        **write.values(),
        "reservation_key": None if reservation is None else reservation.key,
        "token": None if reservation is None else reservation.token,
    }
    reserve = [] if reservation is None else [queries.reserve]
    try:
        *_, admitted, found = await gateway.write([*reserve, queries.admit, queries.read], values, ADMITTING, ADMITTED)
    except RunOutcomeUnreadableError as lost:
        return await _read_back(gateway, admission, write, lost)
    row = row_of(found.rows)
    if admitted.is_applied and row is not None:
        return row
    if row is None and inputs.nests_too_deep(write.snapshot):
        raise RunStateNotStorableError("SQLite cannot parse the snapshot")
    raise RunNotAdmittedError("another attempt holds the reservation" if row is None else "the run exists")


async def _read_back(
    gateway: Gateway, admission: InitialAdmission, write: SnapshotWrite, lost: RunOutcomeUnreadableError
) -> RunRow:
    """RS-12: the exact row, with its reservation, means admitted; anything else stays unreadable."""
    try:
        row = await gateway.read_row(write.address)
        is_held = await _is_held(gateway, admission)
    except DatabaseError as error:
        raise lost from error
    if row is not None and is_held and row.columns == _columns(write):
        return row
    raise lost


async def _is_held(gateway: Gateway, admission: InitialAdmission) -> bool:
    reservation = admission.reservation
    if reservation is None:
        return True
    values: dict[str, Value] = {
        "workflow_id": admission.address.workflow_id,
        "run_id": admission.address.run_id,
        "reservation_key": reservation.key,
        "token": reservation.token,
    }
    [found] = await gateway.database.query([named(gateway.queries.holds, values)])
    return bool(found.rows[0][0])


def _columns(write: SnapshotWrite) -> tuple[str | None, ...]:
    address = write.address
    return address.workflow_id, address.run_id, write.resource_id, write.snapshot, write.created_at, write.updated_at
