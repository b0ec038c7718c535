"""What a caller may ask of the engine, as values: syntax was checked by whoever made them."""

from dataclasses import dataclass
from typing import TypeAlias

from host.model.digest import sha256_hex
from host.model.json import JsonObject, JsonValue, canonical_text
from host.model.operation_states import Action


@dataclass(frozen=True, slots=True)
class CreateResource:
    """HA-32. `body` is the whole envelope, for the comparison of requests."""

    form_url: str
    space: str
    name: str
    spec: JsonObject
    body: JsonObject


@dataclass(frozen=True, slots=True)
class UpdateResource:
    """HA-35."""

    uid: str
    expected_generation: int
    spec: JsonObject
    body: JsonObject


@dataclass(frozen=True, slots=True)
class DeleteResource:
    """HA-36."""

    uid: str
    expected_generation: int


Mutation: TypeAlias = CreateResource | UpdateResource | DeleteResource


def fingerprint(mutation: Mutation) -> str:
    """Equal for requests that HA-51 calls equal: action and uid stand for method and path."""
    match mutation:
        case CreateResource():
            value: JsonValue = [Action.CREATE, mutation.body]
        case UpdateResource():
            value = [Action.UPDATE, mutation.uid, mutation.expected_generation, mutation.body]
        case DeleteResource():
            value = [Action.DELETE, mutation.uid, mutation.expected_generation]
    return sha256_hex(canonical_text(value).encode("utf-8"))
