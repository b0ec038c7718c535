"""What a caller may ask of the engine, as values: syntax was checked by whoever made them.

Each has a `fingerprint`, equal for requests that HA-51 calls equal but for private values: action and uid stand for
method and path. Of private inputs only the names take part; their values are compared through the host key (HA-61).
"""

from dataclasses import InitVar, dataclass, field
from typing import TypeAlias

from host.model.digest import sha256_hex
from host.model.json import JsonObject, JsonValue, canonical_text
from host.model.operation_states import Action
from host.model.private_inputs import PrivateInputs


@dataclass(frozen=True, slots=True)
class CreateResource:
    """HA-32. `body` is the envelope for the comparison of requests, without any private value."""

    form_url: str
    space: str
    name: str
    spec: JsonObject
    body: InitVar[JsonObject]
    inputs: PrivateInputs | None = None
    fingerprint: str = field(init=False)

    def __post_init__(self, body: JsonObject) -> None:
        object.__setattr__(self, "fingerprint", _digest([Action.CREATE, body, *_names(self.inputs)]))


@dataclass(frozen=True, slots=True)
class UpdateResource:
    """HA-35. `body` as for a create."""

    uid: str
    expected_generation: int
    spec: JsonObject
    body: InitVar[JsonObject]
    inputs: PrivateInputs | None = None
    fingerprint: str = field(init=False)

    def __post_init__(self, body: JsonObject) -> None:
        value: JsonValue = [Action.UPDATE, self.uid, self.expected_generation, body, *_names(self.inputs)]
        object.__setattr__(self, "fingerprint", _digest(value))


@dataclass(frozen=True, slots=True)
class DeleteResource:
    """HA-36."""

    uid: str
    expected_generation: int

    @property
    def fingerprint(self) -> str:
        return _digest([Action.DELETE, self.uid, self.expected_generation])


Mutation: TypeAlias = CreateResource | UpdateResource | DeleteResource


def inputs_of(mutation: Mutation) -> PrivateInputs | None:
    """The private inputs; `None` when the request has none, which is not the same as an empty map (HA-60)."""
    return None if isinstance(mutation, DeleteResource) else mutation.inputs


def _digest(value: JsonValue) -> str:
    return sha256_hex(canonical_text(value).encode("utf-8"))


def _names(inputs: PrivateInputs | None) -> list[JsonValue]:
    return [] if inputs is None else [list(inputs.names)]
