"""The acceptance transaction: authority, key, state, then Resource, name, generation, Operation and key at once.

Everything here runs inside one unit of work of the control database and has no other effect (HA-32, HA-52). Ids and
times are given, because a unit may run more than once.
"""

from dataclasses import dataclass, field
from typing import assert_never

from host.engine.admission import Admission
from host.engine.authority import changeable_target
from host.engine.checks import Checks, present
from host.engine.requests import CreateResource, DeleteResource, Mutation, UpdateResource, inputs_of
from host.engine.vault import Vault
from host.model.errors import CallerError, ErrorCode, HostApiError, private_inputs_unverifiable
from host.model.faults import FaultPoints, register
from host.model.json import JsonObject
from host.model.operation_states import Action, Phase, Status, phase_for
from host.model.private_keys import Comparison
from host.model.records import Operation, Principal, Resource
from host.sqlite import Transaction
from host.store.keys import KeptKey, find_key, insert_key
from host.store.operations import NewOperation, find_operation, insert_operation
from host.store.resources import accept_change, add_references, insert_resource

BEFORE_COMMIT = register("host.accept.before_commit", "all rows of an acceptance are written, none is durable")
AFTER_COMMIT = register("host.accept.after_commit", "an acceptance is durable, nobody has taken it up")


@dataclass(frozen=True, slots=True)
class Request:
    """A mutation with all that its acceptance may need, made before the transaction.

    `hindrance` is why the running system forbids a deletion, or the error that kept anybody from telling.
    `fresh_output` is what a new Resource of this Form has as its output from now on (WE-03).
    """

    principal: Principal
    key: str
    fingerprint: str
    mutation: Mutation
    operation_id: str
    fresh_uid: str
    at_ms: int
    retain_until_ms: int
    hindrance: HostApiError | None = None
    fresh_output: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Accepted:
    """`is_replay`: the key was used before and nothing was written."""

    operation: Operation
    is_replay: bool


class Acceptance:
    """Decides on mutations, and writes those that nothing speaks against."""

    def __init__(self, checks: Checks, admission: Admission, vault: Vault, faults: FaultPoints) -> None:
        self._checks = checks
        self._admission = admission
        self._vault = vault
        self._faults = faults

    def accept(self, tx: Transaction, request: Request) -> Accepted:
        """Raises `HostApiError`, the request's `hindrance` included; then nothing was written and no key used up."""
        target = changeable_target(tx, request.principal, request.mutation)
        replayed = self._replayed(tx, request)
        if replayed is not None:
            return Accepted(replayed, is_replay=True)
        self._admission.check(tx, request.principal.id)
        plan = self._checks.plan(tx, request.principal, request.mutation, target, request.hindrance)
        new = self._write(tx, request, target)
        add_references(tx, new.resource_uid, plan.targets)
        operation = insert_operation(tx, new)
        inputs = inputs_of(request.mutation)
        self._vault.keep(tx, operation.id, operation.resource_uid, inputs, request.at_ms)
        insert_key(tx, request.principal.id, request.key, KeptKey(request.fingerprint, operation.id))
        self._faults.reach(BEFORE_COMMIT)
        return Accepted(operation, is_replay=False)

    def _replayed(self, tx: Transaction, request: Request) -> Operation | None:
        """The Operation that the key stands for. Raises `CallerError` for another request, or an incomparable one."""
        kept = find_key(tx, request.principal.id, request.key)
        if kept is None:
            return None
        verdict = Comparison.DIFFERENT
        if kept.fingerprint == request.fingerprint:
            inputs = inputs_of(request.mutation)
            verdict = Comparison.EQUAL if inputs is None else self._vault.compare(tx, kept.operation_id, inputs)
        match verdict:
            case Comparison.EQUAL:
                return find_operation(tx, kept.operation_id)
            case Comparison.DIFFERENT:
                raise CallerError(ErrorCode.IDEMPOTENCY_CONFLICT, "the key was used for another request")
            case Comparison.UNKNOWN:
                raise private_inputs_unverifiable(kept.operation_id)
            case other:
                assert_never(other)

    def _write(self, tx: Transaction, request: Request, target: Resource | None) -> NewOperation:
        """Write the Resource's part; the Operation to insert."""
        mutation = request.mutation
        match mutation:
            case CreateResource():
                insert_resource(tx, _new_resource(request, mutation))
                return _new_operation(request, request.fresh_uid, mutation.space, Action.CREATE, 1)
            case UpdateResource():
                return _accept_change(tx, request, present(target), Action.UPDATE)
            case DeleteResource():
                return _accept_change(tx, request, present(target), Action.DELETE)
            case other:
                assert_never(other)


def _accept_change(tx: Transaction, request: Request, target: Resource, action: Action) -> NewOperation:
    generation = target.generation + 1
    spec = request.mutation.spec if isinstance(request.mutation, UpdateResource) else None
    accept_change(tx, target.uid, generation, phase_for(action, Status.QUEUED), request.operation_id, spec)
    return _new_operation(request, target.uid, target.space, action, generation)


def _new_resource(request: Request, mutation: CreateResource) -> Resource:
    return Resource(
        uid=request.fresh_uid,
        owner=request.principal.id,
        form_url=mutation.form_url,
        space=mutation.space,
        name=mutation.name,
        generation=1,
        observed_generation=0,
        observed_at_ms=None,
        phase=Phase.PENDING,
        spec=mutation.spec,
        observed={},
        output=request.fresh_output,
        facts={},
        last_operation=request.operation_id,
        unfinished=Action.CREATE,
    )


def _new_operation(request: Request, uid: str, space: str, action: Action, generation: int) -> NewOperation:
    inputs = inputs_of(request.mutation)
    return NewOperation(
        id=request.operation_id,
        owner=request.principal.id,
        resource_uid=uid,
        space=space,
        action=action,
        generation=generation,
        at_ms=request.at_ms,
        retain_until_ms=request.retain_until_ms,
        input_names=None if inputs is None else inputs.names,
    )
