"""A Resource and an Operation as values. Wire spelling is `host.http`'s, storage is `host.store`'s."""

from dataclasses import dataclass

from host.model.errors import FailureCode
from host.model.json import JsonObject
from host.model.operation_states import Action, Effect, Phase, Status

LARGEST_INTEGER = 9007199254740991
"""Counters stop here and never wrap (HA-03)."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks: a stable identity, not the bytes of a credential (HA-22)."""

    id: str


@dataclass(frozen=True, slots=True)
class Resource:
    """A Resource as stored (HA-30).

    `facts` is what the host proved about it and needs inside later acceptance transactions; it is never shown.
    `unfinished` is the action of its unfinished Operation, if there is one.
    """

    uid: str
    owner: str
    form_url: str
    space: str
    name: str
    generation: int
    observed_generation: int
    observed_at_ms: int | None
    phase: Phase
    spec: JsonObject
    observed: JsonObject
    output: JsonObject
    facts: JsonObject
    last_operation: str
    unfinished: Action | None


@dataclass(frozen=True, slots=True)
class Failure:
    """`Operation.error`: `message` is safe to show."""

    code: FailureCode
    message: str


@dataclass(frozen=True, slots=True)
class Operation:
    """An accepted mutation (HA-41). `ord` is the order of acceptance, `epoch` counts who took it up."""

    ord: int
    id: str
    owner: str
    resource_uid: str
    action: Action
    generation: int
    status: Status
    effect: Effect
    failure: Failure | None
    created_at_ms: int
    updated_at_ms: int
    retain_until_ms: int
    epoch: int


@dataclass(frozen=True, slots=True)
class ResourceFilter:
    """Equality filters of a list; `None` does not filter."""

    space: str | None = None
    name: str | None = None
    form_url: str | None = None
