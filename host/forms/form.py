"""What a Form is to the engine: pure checks on rows, and two coroutines that work on the backend.

Knows neither tables nor HTTP: rows come through `StateView`, effects go through `host.ports.Backend`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Generic, Protocol, TypeVar

from host.forms import urls
from host.model.errors import CallerError, FailureCode, dependency_conflict, invalid_spec
from host.model.json import JsonObject, JsonValue
from host.model.operation_states import Action, Effect
from host.model.private_inputs import PrivateInputs
from host.model.records import Resource
from host.ports import Backend

S = TypeVar("S")

_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class Reference:
    """A spec's use of another Resource: `role` names the member, `where` its path."""

    role: str
    form_url: str
    uid: str
    where: str


class StateView(Protocol):
    """Rows of one principal and Space, as of the transaction that asks."""

    def resource(self, uid: str) -> Resource | None:
        """A live Resource, deleting ones included."""

    def referrers(self, uid: str, form_url: str | None = None) -> Sequence[Resource]:
        """Live Resources whose spec, or state in force, refers to `uid`; of one Form when it is given."""

    def may_name(self, resource: Resource) -> bool:
        """Whether a refusal may name it: only when who asks may read it, here (HA-23)."""

    def has_lost_secrets(self, version_uid: str) -> bool:
        """Whether the runtime was found without the secrets of a Version (WV-12)."""

    def lost_files(self, version_uid: str) -> Collection[str]:
        """The roles of its bundles of which held bytes were found lost: `bundle`, `assets` (WB-11)."""


def unusable(reference: Reference) -> CallerError:
    """One and the same answer whatever is wrong with the target, in words of the spec alone (HA-32)."""
    form = urls.form_name(reference.form_url)
    return dependency_conflict(
        f"{reference.where} refers to a Resource that cannot be used: a {form} of the same Space is needed,"
        " verified and not being deleted, and the right to refer to it"
    )


def named(view: StateView, resource: Resource | None) -> str:
    """` 'name'` for a refusal; nothing when who asks may not know of the Resource (HA-23)."""
    return f" {resource.name!r}" if resource is not None and view.may_name(resource) else ""


def listed(view: StateView, resources: Sequence[Resource]) -> str:
    """`: Form 'name', ...` of the first few that who asks may know of; nothing when there is none such (HA-23)."""
    known = sorted((urls.form_name(each.form_url), each.name) for each in resources if view.may_name(each))
    words = ", ".join(f"{form} {name!r}" for form, name in known[:_MOST_NAMED])
    more = len(known) - _MOST_NAMED
    return (f": {words}" if words else "") + (f" and {more} more" if more > 0 else "")


class ApplyFailed(Exception):
    """The work of an Operation failed and the host knows how far it came (HA-45).

    `effect` is none or partial; `facts`, when given, replace the Resource's.
    """

    def __init__(self, code: FailureCode, message: str, effect: Effect, facts: JsonObject | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.effect = effect
        self.facts = facts


@dataclass(frozen=True, slots=True)
class Task(Generic[S]):
    """One Operation's work: all rows it needs, read in the transaction that took it up.

    `related` holds every Resource that the spec refers to, by uid. `inputs` are the request's private inputs, `None`
    when it had none or they are not at hand. `output` is the Resource's as it stands. `reach` passes a fault point.
    """

    owner: str
    uid: str
    name: str
    action: Action
    spec: S
    facts: JsonObject
    output: JsonObject
    related: Mapping[str, Resource]
    inputs: PrivateInputs | None
    reach: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a create or update verified: the public observation, and the private proof."""

    observed: JsonObject = field(default_factory=dict)
    output: JsonObject = field(default_factory=dict)
    facts: JsonObject = field(default_factory=dict)


class Form(ABC, Generic[S]):
    """One Form. `S` is its spec as a frozen value whose `==` is the Form's equality of specs."""

    url: ClassVar[str]
    defines_private_inputs: ClassVar[bool] = False
    keeps_place: ClassVar[bool] = False
    """One per Worker, and facts are what takes the place: also those of a part that is left (WD-02, WE-08)."""

    @abstractmethod
    def parse(self, spec: JsonValue) -> S:
        """Read a spec. Raises `CallerError` with `invalid_spec`."""

    @abstractmethod
    def references(self, spec: S) -> tuple[Reference, ...]:
        """All Resources that the spec names."""

    def check_offered(self, spec: S) -> None:
        """Refuse a right spec that asks for what this host cannot do (HA-28). Raises `CallerError`."""

    def check_private_inputs(self, spec: S, inputs: PrivateInputs | None, is_new: bool) -> None:
        """Refuse wrong names or values, for a Form that defines private inputs. Raises `CallerError` (HA-60)."""

    def needs_private_inputs(self, spec: S) -> bool:
        """Whether this spec cannot be without private inputs."""
        return False

    def assign(self, uid: str, name: str, backend: Backend) -> JsonObject:
        """The `output` that a new Resource has from its acceptance on, given to it like its uid (WE-03)."""
        return {}

    def check_create(self, view: StateView, spec: S) -> None:
        """Refuse before effects what the rows forbid; usable references are checked already. Raises `CallerError`."""

    def check_update(self, view: StateView, resource: Resource, old: S, new: S) -> None:
        """Like `check_create`, for a whole replacement; most Forms are immutable."""
        if old != new:
            raise invalid_spec("this Form's spec cannot be changed: create a new Resource")

    def check_delete(self, view: StateView, resource: Resource) -> None:
        """Refuse before effects while something live refers to the Resource."""
        if referrers := view.referrers(resource.uid):
            raise dependency_conflict(f"other Resources still refer to this one{listed(view, referrers)}")

    async def hindrance(self, resource: Resource, backend: Backend) -> str | None:
        """What in the running system forbids the deletion now. Raises `BackendUnavailable` when nobody can tell."""
        return None

    def check_apply(self, view: StateView, resource: Resource, spec: S) -> None:
        """Check again what may have changed since acceptance, before the backend is called. Raises `ApplyFailed`."""

    @abstractmethod
    async def apply(self, task: Task[S], backend: Backend) -> Outcome:
        """Bring the backend to the spec; safe to repeat. Raises `ApplyFailed` or `BackendError`."""

    @abstractmethod
    async def retire(self, task: Task[S], backend: Backend) -> None:
        """Remove what the Form owns; safe to repeat. Raises `ApplyFailed` or `BackendError`."""

    def affected(self, view: StateView, resource: Resource) -> Sequence[Resource]:
        """The Resources whose observation speaks of this one, so is verified again when this one has settled."""
        return ()

    async def observe(self, resource: Resource, backend: Backend) -> JsonObject:
        """The backend's part of an observation, when another Resource's settlement asks for a fresh one."""
        return {}

    def derive(self, view: StateView, resource: Resource, observed: JsonObject) -> JsonObject:
        """The whole observation: `observed` and what follows from the rows, in the transaction that writes it."""
        return observed
