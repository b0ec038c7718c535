"""Every check of a mutation that depends on rows, Forms and capabilities; previews make the same ones (HA-70).

Reads only. Authority and the key come before it; ids and times are not its matter.
"""

from dataclasses import dataclass
from typing import Any, assert_never

from host.engine.limits import Capabilities
from host.engine.requests import CreateResource, DeleteResource, Mutation, UpdateResource
from host.engine.vault import Vault
from host.engine.view import SpaceView
from host.forms.form import Form, unusable
from host.forms.registry import FormRegistry
from host.forms.spec import shown
from host.model.errors import (
    CallerError,
    ErrorCode,
    HostApiError,
    capability_required,
    gone,
    invalid_spec,
    private_inputs_unverifiable,
)
from host.model.private_inputs import PrivateInputs
from host.model.private_keys import Comparison
from host.model.records import LARGEST_INTEGER, Principal, Resource, Right
from host.sqlite import Transaction
from host.store.resources import find_by_name

_LONGEST_URL = 200


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be written: `targets` are roles and uids of what the new spec refers to."""

    targets: tuple[tuple[str, str], ...] = ()


class Checks:
    """The Forms and capabilities on offer."""

    def __init__(self, forms: FormRegistry, capabilities: Capabilities, vault: Vault) -> None:
        self._forms = forms
        self._capabilities = capabilities
        self._vault = vault

    def plan(
        self,
        tx: Transaction,
        principal: Principal,
        mutation: Mutation,
        target: Resource | None,
        hindrance: HostApiError | None,
    ) -> Plan:
        """`target` is the Resource to change. Raises `CallerError`, or `hindrance` when it is all that is wrong."""
        match mutation:
            case CreateResource():
                return self._create(tx, principal, mutation)
            case UpdateResource():
                return self._update(tx, principal, mutation, present(target))
            case DeleteResource():
                return self._delete(tx, principal, mutation, present(target), hindrance)
            case other:
                assert_never(other)

    def _create(self, tx: Transaction, principal: Principal, mutation: CreateResource) -> Plan:
        form = self._form(mutation.form_url)
        self._check_capability(form, mutation.inputs)
        spec = form.parse(mutation.spec)
        if form.needs_private_inputs(spec) and not self._capabilities.private_inputs:
            raise capability_required("the spec needs private inputs, which this host does not take")
        form.check_private_inputs(spec, mutation.inputs, is_new=True)
        form.check_offered(spec)
        if find_by_name(tx, principal.id, mutation.space, mutation.name) is not None:
            raise CallerError(ErrorCode.NAME_CONFLICT, "the Space has a Resource of this name")
        view = _view(tx, principal, mutation.space)
        targets = _checked_references(form, view, spec, principal.may(Right.REFER, mutation.space))
        form.check_create(view, spec)
        return Plan(targets)

    def _update(self, tx: Transaction, principal: Principal, mutation: UpdateResource, target: Resource) -> Plan:
        form = self._form(target.form_url)
        self._check_capability(form, mutation.inputs)
        spec = form.parse(mutation.spec)
        form.check_private_inputs(spec, mutation.inputs, is_new=False)
        _check_turn(target, mutation.expected_generation)
        view = _view(tx, principal, target.space)
        form.check_update(view, target, form.parse(target.spec), spec)
        self._check_unchanged(tx, target, mutation.inputs)
        return Plan(_checked_references(form, view, spec, principal.may(Right.REFER, target.space)))

    def _delete(
        self,
        tx: Transaction,
        principal: Principal,
        mutation: DeleteResource,
        target: Resource,
        hindrance: HostApiError | None,
    ) -> Plan:
        form = self._form(target.form_url)
        _check_turn(target, mutation.expected_generation)
        form.check_delete(_view(tx, principal, target.space), target)
        if hindrance is not None:
            raise hindrance
        return Plan()

    def _form(self, url: str) -> Form[Any]:
        form = self._forms.get(url)
        if form is None:
            raise CallerError(ErrorCode.UNSUPPORTED_FORM, f"this host does not support the Form {self._hint(url)}")
        return form

    def _hint(self, url: str) -> str:
        """What was asked for, and the URL that may have been meant."""
        near, other = self._forms.near(url), self._forms.other_version(url)
        if near is not None:
            return f"{shown(url, _LONGEST_URL)}: its URL is {near}, to the last slash"
        return shown(url, _LONGEST_URL) + ("" if other is None else f": it supports {other}")

    def _check_capability(self, form: Form[Any], inputs: PrivateInputs | None) -> None:
        """The presence alone, even empty, needs host and Form (HA-60)."""
        if inputs is None:
            return
        if not self._capabilities.private_inputs:
            raise capability_required("this host takes no private inputs")
        if not form.defines_private_inputs:
            raise capability_required("the Form has no private inputs")

    def _check_unchanged(self, tx: Transaction, target: Resource, inputs: PrivateInputs | None) -> None:
        """Given again, the values must be those configured: a new value needs a new Resource (WV-07, WV-12)."""
        if inputs is None:
            return
        match self._vault.compare(tx, target.uid, inputs):
            case Comparison.EQUAL:
                return
            case Comparison.DIFFERENT:
                raise invalid_spec("privateInputs differs from what is configured: create a new Resource")
            case Comparison.UNKNOWN:
                raise private_inputs_unverifiable(target.last_operation)


def _view(tx: Transaction, principal: Principal, space: str) -> SpaceView:
    """What the principal's mutation is checked on; only a reader is told names (HA-23)."""
    return SpaceView(tx, principal.id, space, principal.may(Right.READ, space))


def present(target: Resource | None) -> Resource:
    """Raises `gone` when only a marker is left."""
    if target is None:
        raise gone("Resource")
    return target


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


def _checked_references(form: Form[Any], view: SpaceView, spec: Any, may_refer: bool) -> tuple[tuple[str, str], ...]:
    """Roles and uids; one and the same answer whatever is wrong with a target (HA-32)."""
    references = form.references(spec)
    for reference in references:
        if not may_refer or not view.is_usable(reference):
            raise unusable(reference)
    return tuple((reference.role, reference.uid) for reference in references)
