"""Builders of the statements that change a run row. Each carries its own condition; none reads first and writes later.

A builder's `condition` is SQL over the columns of `runs`; `values` are its `:name` parameters.
"""

from collections.abc import Mapping

from emulator.d1 import Statement, named
from emulator.runstore.address import RunAddress
from emulator.runstore.schema import AT_ADDRESS, REVISION
from emulator.runstore.snapshot import Snapshot, encode
from host.sqlite import Value


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
    """The first row of a run, iff none stands at the address and `condition` holds (RS-11)."""
    sql = f"""
        INSERT INTO runs (workflow_id, run_id, resource_id, snapshot, created_at, updated_at)
        SELECT :workflow_id, :run_id, :resource_id, :snapshot, :at, :at
        WHERE NOT EXISTS (SELECT 1 FROM runs WHERE {AT_ADDRESS}) AND ({condition})
    """
    row: dict[str, Value] = {"resource_id": resource_id, "snapshot": encode(snapshot), "at": snapshot.timestamp}
    return named(sql, {**(values or {}), **at(address), **row})


def change(
    members: Mapping[str, str],
    removed: tuple[str, ...],
    condition: str,
    values: Mapping[str, Value],
) -> Statement:
    """Set `members` (JSON path to SQL expression) and drop `removed` paths of every row that meets `condition`.

    The revision grows by one, `timestamp` and `updated_at` become `:at`; everything else stays as stored.
    """
    assignments = {"$.timestamp": ":at", "$.lifecycle.revision": f"{REVISION} + 1", **members}
    pairs = ", ".join(f"'{path}', {expression}" for path, expression in assignments.items())
    text = f"json_set(snapshot, {pairs})"
    if removed:
        text = f"json_remove({text}, {', '.join(repr(path) for path in removed)})"
    sql = f"UPDATE runs SET snapshot = {text}, updated_at = :at WHERE json_valid(snapshot) AND ({condition})"
    return named(sql, values)


def change_at(
    address: RunAddress,
    members: Mapping[str, str],
    removed: tuple[str, ...],
    condition: str,
    values: Mapping[str, Value],
) -> Statement:
    """The same for the one row at `address`."""
    return change(members, removed, f"{AT_ADDRESS} AND ({condition})", {**values, **at(address)})
