"""Statements on Operations.

Every status write goes through the table of HA-42 and names the status and epoch that it expects in its own
statement, so that a stale lease changes nothing.
"""

import json
from dataclasses import dataclass
from typing import cast

from host.model.errors import FailureCode
from host.model.operation_states import Action, Effect, Event, Status, after, check_effect
from host.model.private_inputs import InputReason, InputRequired
from host.model.records import Failure, Operation
from host.sqlite import Transaction, Value

_COLUMNS = (
    "ord, id, owner, resource_uid, action, generation, status, effect, failure_code, failure_message,"
    " created_at_ms, updated_at_ms, retain_until_ms, epoch, space, input_names, input_reason"
)
_UNFINISHED = "status NOT IN ('succeeded', 'failed')"


@dataclass(frozen=True, slots=True)
class NewOperation:
    """What acceptance decides; the rest of an Operation follows."""

    id: str
    owner: str
    resource_uid: str
    space: str
    action: Action
    generation: int
    at_ms: int
    retain_until_ms: int
    input_names: tuple[str, ...] | None = None


def insert_operation(tx: Transaction, new: NewOperation) -> Operation:
    rows = tx.execute(
        "INSERT INTO operations (id, owner, resource_uid, action, generation, status, effect,"
        " created_at_ms, updated_at_ms, retain_until_ms, epoch, space, input_names)"
        f" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?) RETURNING {_COLUMNS}",
        (
            new.id,
            new.owner,
            new.resource_uid,
            new.action,
            new.generation,
            Status.QUEUED,
            Effect.NONE,
            new.at_ms,
            new.at_ms,
            new.retain_until_ms,
            new.space,
            None if new.input_names is None else json.dumps(new.input_names),
        ),
    )
    return _operation(rows[0])


def find_operation(tx: Transaction, operation_id: str) -> Operation | None:
    rows = tx.execute(f"SELECT {_COLUMNS} FROM operations WHERE id = ?", (operation_id,))
    return _operation(rows[0]) if rows else None


def unfinished_operations(tx: Transaction) -> list[Operation]:
    """In order of acceptance."""
    source = "operations INDEXED BY one_unfinished_operation"
    rows = tx.execute(f"SELECT {_COLUMNS} FROM {source} WHERE {_UNFINISHED} ORDER BY ord")
    return [_operation(row) for row in rows]


def has_unfinished(tx: Transaction, owner: str, count: int) -> bool:
    """Whether the owner has at least `count` unfinished Operations; costs no more when it has many more of them."""
    source = "operations INDEXED BY unfinished_by_owner WHERE owner = ? AND"
    rows = tx.execute(f"SELECT 1 FROM {source} {_UNFINISHED} LIMIT 1 OFFSET ?", (owner, count - 1))
    return bool(rows)


def take(tx: Transaction, operation: Operation, at_ms: int) -> Operation:
    """Give the caller the lease under a new epoch; the Operation runs (HA-46)."""
    return _advance(tx, operation, Event.TAKE, Effect.UNKNOWN, None, at_ms, is_taken=True)


def lose_track(tx: Transaction, operation: Operation, failure: Failure | None, at_ms: int) -> Operation:
    """The result of what may have been sent is not known."""
    return _advance(tx, operation, Event.LOSE_TRACK, Effect.UNKNOWN, failure, at_ms)


def ask_input(tx: Transaction, operation: Operation, reason: InputReason, at_ms: int) -> Operation:
    """Nothing was sent and the private inputs are not at hand (HA-63)."""
    _advance(tx, operation, Event.ASK_INPUT, Effect.NONE, None, at_ms)
    sql = f"UPDATE operations SET input_reason = ? WHERE id = ? RETURNING {_COLUMNS}"
    return _operation(tx.execute(sql, (reason, operation.id))[0])


def get_input(tx: Transaction, operation: Operation, at_ms: int) -> Operation:
    """The private inputs are at hand again (HA-62)."""
    return _advance(tx, operation, Event.GET_INPUT, operation.effect, None, at_ms)


def succeed(tx: Transaction, operation: Operation, at_ms: int) -> Operation:
    return _advance(tx, operation, Event.SUCCEED, Effect.COMPLETE, None, at_ms)


def fail(tx: Transaction, operation: Operation, effect: Effect, failure: Failure, at_ms: int) -> Operation:
    return _advance(tx, operation, Event.FAIL, effect, failure, at_ms)


def retain(tx: Transaction, operation_id: str, until_ms: int) -> None:
    """Keep a terminal Operation and its key at least until then; never shortens (HA-54, HA-55)."""
    tx.execute("UPDATE operations SET retain_until_ms = max(retain_until_ms, ?) WHERE id = ?", (until_ms, operation_id))


class LeaseLost(Exception):
    """Somebody else took the Operation up, or it is decided; nothing was written."""


def _advance(
    tx: Transaction,
    operation: Operation,
    event: Event,
    effect: Effect,
    failure: Failure | None,
    at_ms: int,
    is_taken: bool = False,
) -> Operation:
    status = after(operation.status, event)
    rows = tx.execute(
        "UPDATE operations SET status = ?, effect = ?, failure_code = ?, failure_message = ?,"
        " updated_at_ms = max(updated_at_ms, ?), epoch = epoch + ?"
        f" WHERE id = ? AND status = ? AND epoch = ? RETURNING {_COLUMNS}",
        (
            status,
            check_effect(status, effect),
            None if failure is None else failure.code,
            None if failure is None else failure.message,
            at_ms,
            int(is_taken),
            operation.id,
            operation.status,
            operation.epoch,
        ),
    )
    if not rows:
        raise LeaseLost(operation.id)
    return _operation(rows[0])


def _operation(row: tuple[Value, ...]) -> Operation:
    failure = None if row[8] is None else Failure(FailureCode(cast(str, row[8])), cast(str, row[9]))
    status = Status(cast(str, row[6]))
    names = None if row[15] is None else tuple(cast("list[str]", json.loads(cast(str, row[15]))))
    return Operation(
        ord=cast(int, row[0]),
        id=cast(str, row[1]),
        owner=cast(str, row[2]),
        resource_uid=cast(str, row[3]),
        action=Action(cast(str, row[4])),
        generation=cast(int, row[5]),
        status=status,
        effect=Effect(cast(str, row[7])),
        failure=failure,
        created_at_ms=cast(int, row[10]),
        updated_at_ms=cast(int, row[11]),
        retain_until_ms=cast(int, row[12]),
        epoch=cast(int, row[13]),
        space=cast(str, row[14]),
        input_names=names,
        input_required=_input_required(status, names, row[16]),
    )


def _input_required(status: Status, names: tuple[str, ...] | None, reason: Value) -> InputRequired | None:
    if status is not Status.WAITING_INPUT:
        return None
    return InputRequired(names or (), InputReason.UNAVAILABLE if reason is None else InputReason(cast(str, reason)))
