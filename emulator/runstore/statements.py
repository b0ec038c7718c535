"""Builders of the statements that change a run row, for batches that write other tables beside it.

Each carries the store's rule and the caller's own condition; none reads first and writes later. A `condition` is SQL
over the columns of `runs`; `values` are its `:name` parameters.
"""

from collections.abc import Mapping

from emulator.d1 import Statement, named
from emulator.runstore.address import RunAddress
from emulator.runstore.errors import AdmissionBrokenError
from emulator.runstore.queries import queries_for
from emulator.runstore.readings import is_settled, readable
from emulator.runstore.schema import AT_ADDRESS, REVISION
from emulator.runstore.snapshot import TERMINAL, RunStatus, Snapshot, encode
from host.sqlite import Value

STATUS_PATH = "$.status"
TERMINAL_PATH = "$.lifecycle.terminal"
_ENDINGS = ", ".join(f"'{status}'" for status in TERMINAL)
_IS_UNSETTLED = readable("snapshot", f"NOT {is_settled('snapshot')}")


def at(address: RunAddress) -> dict[str, Value]:
    """The parameters of `AT_ADDRESS`."""
    return {"workflow_id": address.workflow_id, "run_id": address.run_id}


def insert_initial(
    address: RunAddress,
    snapshot: Snapshot,
    resource_id: str | None,
    condition: str = "TRUE",
    values: Mapping[str, Value] | None = None,
) -> Statement:
    """The first row of a run, iff none stands at the address and `condition` holds (RS-11).

    Raises `AdmissionBrokenError` for a snapshot that is not pending.
    """
    if snapshot.status is not RunStatus.PENDING:
        raise AdmissionBrokenError("an initial snapshot is pending")
    row: dict[str, Value] = {
        "resource_id": resource_id,
        "snapshot": encode(snapshot),
        "created_at": snapshot.timestamp,
        "updated_at": snapshot.timestamp,
    }
    return named(f"{queries_for('').insert_absent} AND ({condition})", {**(values or {}), **at(address), **row})


def change(
    members: Mapping[str, str],
    removed: tuple[str, ...],
    condition: str,
    values: Mapping[str, Value],
) -> Statement:
    """Set `members` (JSON path to SQL expression) and drop `removed` paths of every row that meets `condition`.

    The revision grows by one, `timestamp` and `updated_at` become `:at`; everything else stays as stored. A status
    that ends the run brings the terminal record that settles it; a settled row is met by no change (RS-60).
    """
    assignments = {"$.timestamp": ":at", "$.lifecycle.revision": f"{REVISION} + 1", **members}
    pairs = ", ".join(f"'{path}', {expression}" for path, expression in assignments.items())
    text = f"json_set(snapshot, {pairs})"
    if removed:
        text = f"json_remove({text}, {', '.join(repr(path) for path in removed)})"
    if STATUS_PATH in members:
        text = _settling(text, members[STATUS_PATH])
    sql = f"UPDATE runs SET snapshot = {text}, updated_at = :at WHERE {_IS_UNSETTLED} AND ({condition})"
    return named(sql, values)


def _settling(text: str, status: str) -> str:
    """The text with the terminal identity, iff `status` ends the run."""
    record = f"json_object('status', {status}, 'transitionedAt', :at)"
    settled = f"json_set({text}, '{TERMINAL_PATH}', {record})"
    return f"CASE WHEN {status} IN ({_ENDINGS}) THEN {settled} ELSE {text} END"


def change_at(
    address: RunAddress,
    members: Mapping[str, str],
    removed: tuple[str, ...],
    condition: str,
    values: Mapping[str, Value],
) -> Statement:
    """The same for the one row at `address`."""
    return change(members, removed, f"{AT_ADDRESS} AND ({condition})", {**values, **at(address)})
