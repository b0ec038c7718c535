"""Writes an Operation's end and everything that follows from it in one transaction."""

from collections.abc import Mapping

from host.engine.taking import Taken, inputs_lost
from host.engine.vault import Vault, forget_resource, forget_value
from host.engine.view import SpaceView
from host.forms.form import ApplyFailed, Outcome
from host.forms.registry import FormRegistry
from host.model.errors import FailureCode
from host.model.json import JsonObject
from host.model.operation_states import Action, Effect, Status, phase_for
from host.model.private_inputs import InputReason
from host.model.records import Failure, Operation, Resource
from host.sqlite import Transaction
from host.store.losses import forget_observation, put_off_observation
from host.store.operations import ask_input, fail, find_operation, retain, succeed
from host.store.resources import (
    Verified,
    delete_resource,
    find_resource,
    replace_references,
    store_failed,
    store_observation,
    store_verified,
)


def settle_success(
    tx: Transaction,
    taken: Taken,
    outcome: Outcome,
    observations: Mapping[str, JsonObject],
    forms: FormRegistry,
    at_ms: int,
    retain_until_ms: int,
) -> Operation:
    """`observations` are the backend's fresh parts for the Resources that this one affects. Raises `LeaseLost`."""
    operation = succeed(tx, taken.operation, at_ms)
    retain(tx, operation.id, retain_until_ms)
    forget_value(tx, operation.id)
    resource = _resource(tx, operation)
    view = SpaceView(tx, resource.owner, resource.space)
    affected = [each.uid for each in taken.form.affected(view, resource)]
    if operation.action is Action.DELETE:
        forget_resource(tx, resource.uid)
        delete_resource(tx, resource.uid, at_ms)
    else:
        _store_outcome(tx, taken, resource, operation, outcome, at_ms)
    for uid in affected:
        if uid in observations:
            observe_again(tx, view, uid, observations[uid], forms, at_ms)
    return operation


def settle_failure(tx: Transaction, taken: Taken, failed: ApplyFailed, at_ms: int, retain_until_ms: int) -> Operation:
    """The Resource stays with spec and last observation, in `error` (HA-38, HA-44). Raises `LeaseLost`."""
    failure = Failure(failed.code, failed.message)
    operation = fail(tx, taken.operation, failed.effect, failure, at_ms)
    retain(tx, operation.id, retain_until_ms)
    forget_value(tx, operation.id)
    store_failed(tx, operation.resource_uid, phase_for(operation.action, operation.status), failed.facts)
    return operation


def settle_without_inputs(
    tx: Transaction, taken: Taken, vault: Vault, missing: str, at_ms: int, retain_until_ms: int
) -> Operation:
    """The runtime lacks the secrets and was given none: nothing was changed, so ask for them again, or fail.

    `missing` says so for a request that brought none. Raises `LeaseLost`.
    """
    lost = vault.read(tx, taken.operation, at_ms)
    if not isinstance(lost, InputReason):
        failed = ApplyFailed(FailureCode.PRIVATE_INPUTS_LOST, missing, Effect.NONE)
        return settle_failure(tx, taken, failed, at_ms, retain_until_ms)
    if vault.can_compare(tx, taken.operation.id):
        return ask_input(tx, taken.operation, lost, at_ms)
    return settle_failure(tx, taken, inputs_lost(), at_ms, retain_until_ms)


def settle_by_operator(
    tx: Transaction,
    operation_id: str,
    effect: Effect,
    message: str,
    forms: FormRegistry,
    at_ms: int,
    retain_until_ms: int,
) -> Operation | None:
    """End an Operation that only reconciles, as somebody found out by other means (HA-46).

    `None`, and nothing written, when there is no such Operation or it does not reconcile now. Raises
    `IllegalTransition` for an effect that a failure cannot have.
    """
    operation = find_operation(tx, operation_id)
    if operation is None or operation.status is not Status.RECONCILING:
        return None
    failed = fail(tx, operation, effect, Failure(FailureCode.SETTLED_BY_OPERATOR, message), at_ms)
    retain(tx, failed.id, retain_until_ms)
    forget_value(tx, failed.id)
    facts = _remaining(_resource(tx, operation), forms) if effect is Effect.PARTIAL else None
    store_failed(tx, failed.resource_uid, phase_for(failed.action, failed.status), facts)
    return find_operation(tx, failed.id)


def _remaining(resource: Resource, forms: FormRegistry) -> JsonObject | None:
    """The facts of one whose Form has a single place: what is left of it keeps that place (WD-02, WE-08)."""
    form = forms.get(resource.form_url)
    return {**resource.facts, "partial": True} if form is not None and form.keeps_place else None


def _resource(tx: Transaction, operation: Operation) -> Resource:
    resource = find_resource(tx, operation.owner, operation.resource_uid)
    assert resource is not None, "an unfinished Operation keeps its Resource"
    return resource


def _store_outcome(
    tx: Transaction, taken: Taken, resource: Resource, operation: Operation, outcome: Outcome, at_ms: int
) -> None:
    """First what was proven, then the observation, which may follow from it."""
    phase = phase_for(operation.action, Status.SUCCEEDED)
    verified = Verified(operation.generation, at_ms, outcome.observed, outcome.output, outcome.facts)
    store_verified(tx, resource.uid, phase, verified)
    targets = [(reference.role, reference.uid) for reference in taken.form.references(taken.task.spec)]
    replace_references(tx, resource.uid, targets)
    view = SpaceView(tx, resource.owner, resource.space)
    derived = taken.form.derive(view, _resource(tx, operation), outcome.observed)
    store_observation(tx, resource.uid, derived, at_ms)
    forget_observation(tx, resource.uid)


def observe_again(
    tx: Transaction, view: SpaceView, uid: str, observed: JsonObject, forms: FormRegistry, at_ms: int
) -> None:
    """Store a fresh observation of what was verified last; generations, phase and `output` stay.

    Our reading of HA-38: while a change is pending its Resource keeps `observed` and `observedAt` bit for bit, so what
    is found out meanwhile is put off until that change has ended. A change that failed brings nothing into them either;
    but it does not freeze them: a later check that comes to an end verifies anew what is in force, with its own time.
    So a Version in `error` tells of lost secrets too, as WV-12 asks, and of their return. Before the first verification
    there is nothing to look at again (HA-39).
    """
    resource = view.resource(uid)
    form = None if resource is None else forms.get(resource.form_url)
    if resource is None or form is None or not resource.observed_generation:
        return
    if resource.unfinished is not None:
        put_off_observation(tx, uid)
        return
    store_observation(tx, uid, form.derive(view, resource, observed), at_ms)
    forget_observation(tx, uid)


def affected_by(tx: Transaction, taken: Taken) -> list[Resource]:
    """The Resources whose observation a success of this Operation changes, to be asked of the backend beforehand."""
    resource = _resource(tx, taken.operation)
    return list(taken.form.affected(SpaceView(tx, resource.owner, resource.space), resource))
