"""Takes an Operation up: the lease under a new epoch, and all rows that its work needs, in one transaction."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from host.engine.vault import Vault
from host.engine.view import SpaceView
from host.forms.form import ApplyFailed, Form, Task
from host.forms.registry import FormRegistry
from host.model.errors import FailureCode
from host.model.operation_states import Action, Effect, Status
from host.model.private_inputs import InputReason, PrivateInputs
from host.model.records import Operation, Resource
from host.sqlite import Transaction
from host.store.operations import ask_input, find_operation, take
from host.store.resources import find_resource, has_earlier_unfinished


@dataclass(frozen=True, slots=True)
class Taken:
    """The lease and the work. `verdict` is why it cannot be done, when the rows alone say so."""

    operation: Operation
    form: Form[Any]
    task: Task[Any]
    verdict: ApplyFailed | None


@dataclass(frozen=True, slots=True)
class Waiting:
    """An earlier Operation on something that the spec refers to is undecided: nothing was sent (WD-02)."""


@dataclass(frozen=True, slots=True)
class Decided:
    """There is nothing left to do."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The private inputs are not at hand and nothing was sent: the Operation waits for them (HA-63)."""


Taking: TypeAlias = Taken | Waiting | Decided | Asked


def take_up(
    tx: Transaction, operation_id: str, forms: FormRegistry, vault: Vault, at_ms: int, reach: Callable[[str], None]
) -> Taking:
    """Queued or reconciling becomes running, under a lease that a settlement has to name."""
    operation = find_operation(tx, operation_id)
    if operation is None or operation.status not in (Status.QUEUED, Status.RECONCILING):
        return Decided()
    resource = find_resource(tx, operation.owner, operation.resource_uid)
    form = None if resource is None else forms.get(resource.form_url)
    if resource is None or form is None:
        return Waiting()  # a host without the Form: the Operation stays until one with it starts
    spec = form.parse(resource.spec)
    view = SpaceView(tx, resource.owner, resource.space)
    related = {reference.uid: view.resource(reference.uid) for reference in form.references(spec)}
    if operation.action is not Action.DELETE and has_earlier_unfinished(tx, tuple(related), operation.ord):
        return Waiting()
    verdict = _verdict(form, view, operation, resource, spec, related)
    inputs = vault.read(tx, operation, at_ms)
    if isinstance(inputs, InputReason):
        if operation.status is Status.QUEUED and verdict is None:
            if vault.can_compare(tx, operation.id):
                ask_input(tx, operation, inputs, at_ms)
                return Asked()
            verdict = inputs_lost()
        inputs = None
    taken = take(tx, operation, at_ms)
    present = {uid: found for uid, found in related.items() if found is not None}
    return Taken(taken, form, _task(resource, taken, spec, present, inputs, reach), verdict)


def inputs_lost() -> ApplyFailed:
    """Neither the values nor what would compare new ones are left, and nothing was sent (HA-65)."""
    message = "the private inputs are lost and cannot be compared with new ones"
    return ApplyFailed(FailureCode.PRIVATE_INPUTS_LOST, message, Effect.NONE)


def _task(
    resource: Resource,
    operation: Operation,
    spec: Any,
    related: Mapping[str, Resource],
    inputs: PrivateInputs | None,
    reach: Callable[[str], None],
) -> Task[Any]:
    return Task(
        owner=resource.owner,
        uid=resource.uid,
        name=resource.name,
        action=operation.action,
        spec=spec,
        facts=resource.facts,
        output=resource.output,
        related=related,
        inputs=inputs,
        reach=reach,
    )


def _verdict(
    form: Form[Any],
    view: SpaceView,
    operation: Operation,
    resource: Resource,
    spec: Any,
    related: Mapping[str, Resource | None],
) -> ApplyFailed | None:
    if operation.action is Action.DELETE:
        return None
    if any(found is None or found.observed_generation == 0 for found in related.values()):
        return ApplyFailed(
            FailureCode.DEPENDENCY_UNFIT, "a Resource that the spec refers to could not be made ready", Effect.NONE
        )
    try:
        form.check_apply(view, resource, spec)
    except ApplyFailed as failed:
        return failed
    return None
