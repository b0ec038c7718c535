"""Gives an Operation its private inputs again, in one transaction; it starts nothing by itself (HA-62)."""

from typing import assert_never

from host.engine.authority import changeable_operation
from host.engine.vault import Vault
from host.model.errors import CallerError, ErrorCode, private_inputs_unverifiable
from host.model.faults import FaultPoints, register
from host.model.operation_states import Status
from host.model.private_inputs import PrivateInputs
from host.model.private_keys import Comparison
from host.model.records import Operation, Principal
from host.sqlite import Transaction
from host.store.operations import get_input

BEFORE_REPLENISH = register("host.replenish.before_commit", "the inputs and the new status are written, not durable")
AFTER_REPLENISH = register("host.replenish.after_commit", "the inputs are there again, nobody has taken them up")


def replenish(
    tx: Transaction,
    principal: Principal,
    operation_id: str,
    inputs: PrivateInputs,
    vault: Vault,
    at_ms: int,
    faults: FaultPoints,
) -> Operation:
    """The Operation as it stands then; only one that waits for inputs is queued again. Raises `CallerError`."""
    operation = changeable_operation(tx, principal, operation_id)
    if operation.status.is_terminal:
        raise CallerError(ErrorCode.OPERATION_TERMINAL, "the Operation has ended", operation_id=operation.id)
    match _compare(tx, operation, inputs, vault):
        case Comparison.EQUAL:
            pass
        case Comparison.DIFFERENT:
            detail = "these are not the private inputs of the original request"
            raise CallerError(ErrorCode.PRIVATE_INPUTS_CONFLICT, detail, operation_id=operation.id)
        case Comparison.UNKNOWN:
            raise private_inputs_unverifiable(operation.id)
        case other:
            assert_never(other)
    if operation.status is not Status.WAITING_INPUT:
        return operation
    vault.keep_value(tx, operation.id, inputs, at_ms)
    queued = get_input(tx, operation, at_ms)
    faults.reach(BEFORE_REPLENISH)
    return queued


def _compare(tx: Transaction, operation: Operation, inputs: PrivateInputs, vault: Vault) -> Comparison:
    if operation.input_names != inputs.names:
        return Comparison.DIFFERENT
    return vault.compare(tx, operation.id, inputs)
