"""Private values of a request as a value that never shows them. Knows neither storage nor ciphers (HA-60, HA-61)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from host.model.json import JsonObject, canonical_text


@dataclass(frozen=True, slots=True)
class PrivateInputs:
    """Names and their values; `repr` shows neither."""

    values: Mapping[str, str] = field(repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """In order; names are public (HA-41)."""
        return tuple(sorted(self.values))

    @property
    def text(self) -> str:
        """Canonical JSON: equal exactly for equal maps. It is never stored or shown as it is."""
        members: JsonObject = dict(self.values)
        return canonical_text(members)


class InputReason(StrEnum):
    """Why an Operation asks for its private inputs again (HA-41)."""

    EXPIRED = "expired"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True)
class InputRequired:
    """What an Operation in `waiting_input` waits for."""

    names: tuple[str, ...]
    reason: InputReason
