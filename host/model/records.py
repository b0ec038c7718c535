"""A Resource and an Operation as values. Wire spelling is `host.http`'s, storage is `host.store`'s."""

from dataclasses import dataclass
from enum import StrEnum

from host.model.errors import FailureCode
from host.model.json import JsonObject
from host.model.operation_states import Action, Effect, Phase, Status
from host.model.private_inputs import InputRequired

LARGEST_INTEGER = 9007199254740991
"""Counters stop here and never wrap (HA-03)."""


class Right(StrEnum):
    """What may be done with Resources: none of these implies another (HA-23)."""

    READ = "read"
    CHANGE = "change"
    REFER = "refer"


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks: a stable identity, not the bytes of a credential (HA-22), and what it may do now.

    Every principal has Resources and Spaces of its own. `spaces` narrows the rights to the named ones; `None` is all.
    """

    id: str
    rights: frozenset[Right] = frozenset(Right)
    spaces: frozenset[str] | None = None

    def may(self, right: Right, space: str) -> bool:
        """Whether it has the right in one of its own Spaces."""
        return right in self.rights and (self.spaces is None or space in self.spaces)


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
    """An accepted mutation (HA-41). `ord` is the order of acceptance, `epoch` counts who took it up.

    `space` is the target's, for authority outlives the Resource (HA-43). `input_names` are the names of its private
    inputs, `None` when the request had none; `input_required` is there while it waits for them.
    """

    ord: int
    id: str
    owner: str
    resource_uid: str
    space: str
    action: Action
    generation: int
    status: Status
    effect: Effect
    failure: Failure | None
    created_at_ms: int
    updated_at_ms: int
    retain_until_ms: int
    epoch: int
    input_names: tuple[str, ...] | None
    input_required: InputRequired | None


@dataclass(frozen=True, slots=True)
class ResourceFilter:
    """Equality filters of a list; `None` does not filter."""

    space: str | None = None
    name: str | None = None
    form_url: str | None = None
