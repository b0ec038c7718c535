"""Who may do what: 403 only for a caller that may see the thing, otherwise the answer for an absent one (HA-23)."""

from host.engine.requests import CreateResource, Mutation
from host.model.errors import CallerError, forbidden, gone, not_found
from host.model.records import Operation, Principal, Resource, Right
from host.sqlite import Transaction
from host.store.operations import find_operation
from host.store.resources import deleted_space, find_resource


def readable_resource(tx: Transaction, principal: Principal, uid: str) -> Resource:
    """Raises `not_found`, or `gone` for one that this principal deleted (HA-33)."""
    found = find_resource(tx, principal.id, uid)
    space = deleted_space(tx, principal.id, uid) if found is None else found.space
    if space is None or not principal.may(Right.READ, space):
        raise not_found("Resource")
    if found is None:
        raise gone("Resource")
    return found


def readable_operation(tx: Transaction, principal: Principal, operation_id: str) -> Operation:
    """Needs the authority over its target, which may have been deleted (HA-43). Raises `not_found`."""
    found = find_operation(tx, operation_id)
    if found is None or found.owner != principal.id or not principal.may(Right.READ, found.space):
        raise not_found("Operation")
    return found


def changeable_target(tx: Transaction, principal: Principal, mutation: Mutation) -> Resource | None:
    """The Resource to change; `None` for a create, or when only a marker is left: a replay may still name it.

    Raises `forbidden` or `not_found`; a replay does not escape it (HA-52).
    """
    if isinstance(mutation, CreateResource):
        if not principal.may(Right.CHANGE, mutation.space):
            raise forbidden("this principal may not create Resources in the Space")
        return None
    found = find_resource(tx, principal.id, mutation.uid)
    space = deleted_space(tx, principal.id, mutation.uid) if found is None else found.space
    if space is None:
        raise not_found("Resource")
    _check_change(principal, space, not_found("Resource"))
    return found


def changeable_operation(tx: Transaction, principal: Principal, operation_id: str) -> Operation:
    """The Operation to give private inputs to (HA-62). Raises `forbidden` or `not_found`."""
    found = readable_operation(tx, principal, operation_id)
    _check_change(principal, found.space, not_found("Operation"))
    return found


def _check_change(principal: Principal, space: str, absent: CallerError) -> None:
    if not principal.may(Right.READ, space):
        raise absent
    if not principal.may(Right.CHANGE, space):
        raise forbidden("this principal may not change Resources in the Space")
