"""The acceptance transaction: authority, key, state, then Resource, name, generation, Operation and key at once.

Everything here runs inside one unit of work of the control database and has no other effect (HA-32, HA-52). Ids and
times are given, because a unit may run twice.
"""

from dataclasses import dataclass
from typing import Any, assert_never

from host.engine.requests import CreateResource, DeleteResource, Mutation, UpdateResource
from host.engine.view import SpaceView
from host.forms.form import Form
from host.forms.registry import FormRegistry
from host.model.errors import CallerError, ErrorCode, HostApiError, dependency_conflict, not_found
from host.model.faults import FaultPoints, register
from host.model.operation_states import Action, Phase, Status, phase_for
from host.model.records import LARGEST_INTEGER, Operation, Resource
from host.sqlite import Transaction
from host.store.keys import KeptKey, find_key, insert_key
from host.store.operations import NewOperation, find_operation, insert_operation
from host.store.resources import (
    accept_change,
    add_references,
    find_by_name,
    find_resource,
    insert_resource,
    is_deleted,
)

BEFORE_COMMIT = register("host.accept.before_commit", "all rows of an acceptance are written, none is durable")
AFTER_COMMIT = register("host.accept.after_commit", "an acceptance is durable, nobody has taken it up")


@dataclass(frozen=True, slots=True)
class Request:
    """A mutation with all that its acceptance may need, made before the transaction.

    `hindrance` is why the running system forbids a deletion, or the error that kept anybody from telling.
    """

    owner: str
    key: str
    fingerprint: str
    mutation: Mutation
    operation_id: str
    fresh_uid: str
    at_ms: int
    retain_until_ms: int
    hindrance: HostApiError | None = None


@dataclass(frozen=True, slots=True)
class Accepted:
    """`is_replay`: the key was used before and nothing was written."""

    operation: Operation
    is_replay: bool


class Acceptance:
    """Decides on mutations with the Forms on offer."""

    def __init__(self, forms: FormRegistry, faults: FaultPoints) -> None:
        self._forms = forms
        self._faults = faults

    def accept(self, tx: Transaction, request: Request) -> Accepted:
        """Raises `CallerError`, or the request's `hindrance`; then nothing was written and no key used up."""
        mutation = request.mutation
        target = None if isinstance(mutation, CreateResource) else _target(tx, request.owner, mutation.uid)
        replayed = _replayed(tx, request)
        if replayed is not None:
            return Accepted(replayed, is_replay=True)
        match mutation:
            case CreateResource():
                operation = self._create(tx, request, mutation)
            case UpdateResource():
                operation = self._update(tx, request, mutation, _present(target))
            case DeleteResource():
                operation = self._delete(tx, request, mutation, _present(target))
            case other:
                assert_never(other)
        insert_key(tx, request.owner, request.key, KeptKey(request.fingerprint, operation.id))
        self._faults.reach(BEFORE_COMMIT)
        return Accepted(operation, is_replay=False)

    def _create(self, tx: Transaction, request: Request, mutation: CreateResource) -> Operation:
        form = self._form(mutation.form_url)
        spec = form.parse(mutation.spec)
        form.check_offered(spec)
        if find_by_name(tx, request.owner, mutation.space, mutation.name) is not None:
            raise CallerError(ErrorCode.NAME_CONFLICT, "the Space has a Resource of this name")
        view = SpaceView(tx, request.owner, mutation.space)
        targets = _checked_references(form, view, spec)
        form.check_create(view, spec)
        insert_resource(tx, _new_resource(request, mutation))
        add_references(tx, request.fresh_uid, targets)
        return insert_operation(tx, _new_operation(request, request.fresh_uid, Action.CREATE, 1))

    def _update(self, tx: Transaction, request: Request, mutation: UpdateResource, target: Resource) -> Operation:
        form = self._form(target.form_url)
        spec = form.parse(mutation.spec)
        _check_turn(target, mutation.expected_generation)
        view = SpaceView(tx, request.owner, target.space)
        form.check_update(view, target, form.parse(target.spec), spec)
        targets = _checked_references(form, view, spec)
        generation = target.generation + 1
        phase = phase_for(Action.UPDATE, Status.QUEUED)
        accept_change(tx, target.uid, generation, phase, request.operation_id, mutation.spec)
        add_references(tx, target.uid, targets)
        return insert_operation(tx, _new_operation(request, target.uid, Action.UPDATE, generation))

    def _delete(self, tx: Transaction, request: Request, mutation: DeleteResource, target: Resource) -> Operation:
        form = self._form(target.form_url)
        _check_turn(target, mutation.expected_generation)
        form.check_delete(SpaceView(tx, request.owner, target.space), target)
        if request.hindrance is not None:
            raise request.hindrance
        generation = target.generation + 1
        phase = phase_for(Action.DELETE, Status.QUEUED)
        accept_change(tx, target.uid, generation, phase, request.operation_id, None)
        return insert_operation(tx, _new_operation(request, target.uid, Action.DELETE, generation))

    def _form(self, url: str) -> Form[Any]:
        form = self._forms.get(url)
        if form is None:
            raise CallerError(ErrorCode.UNSUPPORTED_FORM, "this host does not support the Form")
        return form


def _target(tx: Transaction, owner: str, uid: str) -> Resource | None:
    """The Resource to change; `None` when only a marker is left, for a replay may still name it.

    Raises `not_found` for what this owner never had (HA-23).
    """
    found = find_resource(tx, owner, uid)
    if found is None and not is_deleted(tx, owner, uid):
        raise not_found("Resource")
    return found


def _present(target: Resource | None) -> Resource:
    if target is None:
        raise CallerError(ErrorCode.GONE, "the Resource was deleted")
    return target


def _replayed(tx: Transaction, request: Request) -> Operation | None:
    kept = find_key(tx, request.owner, request.key)
    if kept is None:
        return None
    if kept.fingerprint != request.fingerprint:
        raise CallerError(ErrorCode.IDEMPOTENCY_CONFLICT, "the key was used for another request")
    return find_operation(tx, kept.operation_id)


def _check_turn(target: Resource, expected_generation: int) -> None:
    """One unfinished mutation per uid (HA-37), and only from the generation that the caller has seen (HA-35)."""
    if target.unfinished is not None:
        raise CallerError(
            ErrorCode.RESOURCE_BUSY,
            "the Resource has an unfinished Operation",
            operation_id=target.last_operation,
        )
    if target.generation != expected_generation:
        raise CallerError(ErrorCode.GENERATION_CONFLICT, "the Resource is at another generation")
    if target.generation >= LARGEST_INTEGER:
        raise CallerError(ErrorCode.GENERATION_CONFLICT, "the Resource's generation is at its maximum")


def _checked_references(form: Form[Any], view: SpaceView, spec: Any) -> list[tuple[str, str]]:
    """Roles and uids; one and the same answer whatever is wrong with a target (HA-32)."""
    references = form.references(spec)
    for reference in references:
        if not view.is_usable(reference):
            raise dependency_conflict(f"{reference.where} refers to a Resource that cannot be used")
    return [(reference.role, reference.uid) for reference in references]


def _new_resource(request: Request, mutation: CreateResource) -> Resource:
    return Resource(
        uid=request.fresh_uid,
        owner=request.owner,
        form_url=mutation.form_url,
        space=mutation.space,
        name=mutation.name,
        generation=1,
        observed_generation=0,
        observed_at_ms=None,
        phase=Phase.PENDING,
        spec=mutation.spec,
        observed={},
        output={},
        facts={},
        last_operation=request.operation_id,
        unfinished=Action.CREATE,
    )


def _new_operation(request: Request, uid: str, action: Action, generation: int) -> NewOperation:
    return NewOperation(
        id=request.operation_id,
        owner=request.owner,
        resource_uid=uid,
        action=action,
        generation=generation,
        at_ms=request.at_ms,
        retain_until_ms=request.retain_until_ms,
    )
