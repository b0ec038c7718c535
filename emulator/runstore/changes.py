"""The compare-and-set writes on one row: touch, replace, patch and the end of an initial admission (RS-13 to RS-40).

Each is one batch whose statement carries its condition. Over a row that SQLite cannot parse the decision is made
here and the write compares the exact bytes decided on (RS-62).
"""

from dataclasses import dataclass
from enum import StrEnum

from emulator.runstore import inputs
from emulator.runstore.address import RunAddress
from emulator.runstore.endings import Cause, Disposition, end_snapshot
from emulator.runstore.errors import MalformedRunInputError, RunContendedError, RunStateNotStorableError
from emulator.runstore.gateway import ENDED, ENDING, PATCHED, PATCHING, REPLACED, REPLACING, Gateway, values_at
from emulator.runstore.inputs import Expectation, InitialTerminalization, LifecyclePatch, Replacement
from emulator.runstore.rows import RunRow, row_of
from emulator.runstore.rules import is_settled, lifecycle_of, scalar
from emulator.runstore.texts import NotJsonError, child
from host.sqlite import Value

ATTEMPTS = 8
"""How often a row that SQLite cannot parse is decided on again before the write gives up."""


class Liveness(StrEnum):
    """What a touch found."""

    LIVE = "live"
    SETTLED = "settled"
    ABSENT = "absent"


class EndKind(StrEnum):
    """How an initial admission was found, or left."""

    TERMINALIZED = "terminalized"
    ALREADY_TERMINALIZED = "already_terminalized"
    PROGRESSED = "progressed"
    CONFLICT = "conflict"


@dataclass(frozen=True, slots=True)
class Terminalization:
    """`row` is as stored now (None only in a conflict); `disposition` is what the stored intent decided."""

    kind: EndKind
    row: RunRow | None
    disposition: Disposition | None = None


async def touch(gateway: Gateway, address: RunAddress, now: str) -> Liveness:
    """RS-20."""
    inputs.require_address(address)
    inputs.require_instant(now, "now")
    queries = gateway.queries
    values: dict[str, Value] = {**values_at(address), "updated_at": now}
    [touched] = await gateway.write([queries.touch], values)
    if touched.is_applied:
        return Liveness.LIVE
    for _ in range(ATTEMPTS):  # why it missed is asked in the batch of another attempt
        touched, found = await gateway.write([queries.touch, queries.unparsed], values)
        if touched.is_applied:
            return Liveness.LIVE
        if not found.rows:
            return Liveness.ABSENT
        unparsed = found.rows[0][0]
        if unparsed is None or is_settled(lifecycle_of(str(unparsed))):
            return Liveness.SETTLED
        [swapped] = await gateway.write([queries.touch_unparsed], {**values, "expected_snapshot": unparsed})
        if swapped.is_applied:
            return Liveness.LIVE
    raise RunContendedError("the row changed at every attempt to touch it")


def _swap_values(expected: RunRow, snapshot: str, updated_at: str) -> dict[str, Value]:
    return {
        **values_at(expected.address),
        "resource_id": expected.resource_id,
        "expected_snapshot": expected.snapshot,
        "created_at": expected.created_at,
        "expected_updated_at": expected.updated_at,
        "snapshot": snapshot,
        "updated_at": updated_at,
    }


async def replace(gateway: Gateway, expected: RunRow, replacement: Replacement) -> bool:
    """RS-30."""
    inputs.require_address(expected.address)
    inputs.require_instant(replacement.updated_at, "updated_at")
    inputs.require_object_start(replacement.snapshot)
    queries = gateway.queries
    values = _swap_values(expected, replacement.snapshot, replacement.updated_at)
    [replaced] = await gateway.write([queries.replace], values, REPLACING, REPLACED)
    if replaced.is_applied:
        return True
    replaced, found = await gateway.write([queries.replace, queries.parses], values, REPLACING, REPLACED)
    [(is_storable, is_parsed)] = found.rows
    if replaced.is_applied or is_storable:
        return replaced.is_applied
    inputs.require_object(replacement.snapshot, "snapshot")
    if is_parsed:
        raise RunStateNotStorableError("SQLite cannot parse the snapshot")
    [replaced] = await gateway.write([queries.replace_unparsed], values, REPLACING, REPLACED)
    return replaced.is_applied


async def patch(gateway: Gateway, address: RunAddress, expected: Expectation, change: LifecyclePatch) -> bool:
    """RS-40."""
    inputs.require_address(address)
    inputs.require_expectation(expected)
    inputs.require_patch(change, expected)
    if expected.lifecycle is not None and inputs.nests_too_deep(expected.lifecycle):
        return False
    values: dict[str, Value] = {
        **values_at(address),
        "status": expected.status,
        "lifecycle_revision": expected.lifecycle_revision,
        "expected_lifecycle": expected.lifecycle,
        "lifecycle": change.lifecycle,
        "timestamp": _json_of(change.timestamp),
        "updated_at": change.updated_at,
    }
    [patched] = await gateway.write([gateway.queries.patch], values, PATCHING, PATCHED)
    return patched.is_applied


def _json_of(timestamp: int | str) -> str:
    """The text of a checked timestamp, an instant needing no escape; bound as text, for D1 binds numbers as doubles."""
    return str(timestamp) if isinstance(timestamp, int) else f'"{timestamp}"'


async def terminalize(gateway: Gateway, request: InitialTerminalization) -> Terminalization:
    """RS-13."""
    expected = request.expected
    inputs.require_address(expected.address)
    inputs.require_instant(request.at, "at")
    if _status(expected.snapshot) != "pending":
        raise MalformedRunInputError("the expected row is not an initial one: its status is not pending")
    queries = gateway.queries
    ending = end_snapshot(expected.snapshot, request.at, Cause.START_OUTCOME_UNKNOWN, request.leg_is_stopped)
    values = _swap_values(expected, ending.snapshot, request.at)
    swapped, found = await gateway.write([queries.swap, queries.read], values, ENDING, ENDED)
    row = row_of(found.rows)
    if swapped.is_applied:
        return Terminalization(EndKind.TERMINALIZED, row, ending.disposition)
    if row is None:
        return Terminalization(EndKind.CONFLICT, None)
    if (row.snapshot, row.updated_at) == (ending.snapshot, request.at) and _is_same_start(row, expected):
        return Terminalization(EndKind.ALREADY_TERMINALIZED, row, ending.disposition)
    has_progressed = _is_same_start(row, expected) and _status(row.snapshot) not in (None, "pending")
    return Terminalization(EndKind.PROGRESSED if has_progressed else EndKind.CONFLICT, row)


def _is_same_start(row: RunRow, other: RunRow) -> bool:
    """A row that was deleted and admitted again has another start."""
    return _start(row) == _start(other)


def _start(row: RunRow) -> tuple[object, ...]:
    lifecycle = lifecycle_of(row.snapshot)
    token = None if lifecycle is None else scalar(child(lifecycle, "attemptToken"))
    return row.resource_id, row.created_at, token


def _status(snapshot: str) -> str | None:
    try:
        found = scalar(child(snapshot, "status"))
    except NotJsonError:
        return None
    return found if isinstance(found, str) else None
