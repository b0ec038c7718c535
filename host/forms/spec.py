"""Reads a `spec` strictly: closed objects, exact references, bounded arrays. Every refusal is 422 `invalid_spec`.

Knows no Form. `where` is the member's path, for the author of the spec.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from host.model.errors import invalid_spec
from host.model.ids import is_identifier
from host.model.json import JsonObject, JsonValue

T = TypeVar("T")

_LONGEST_SHOWN = 64
_MOST_SHOWN = 8


def closed_object(
    value: JsonValue, where: str, required: Iterable[str] = (), optional: Iterable[str] = ()
) -> JsonObject:
    """The object, with all of `required` and nothing beyond `optional`; a `null` is a value like any other (WV-01)."""
    if not isinstance(value, dict):
        raise invalid_spec(f"{where} is not an object")
    for name in required:
        if name not in value:
            raise invalid_spec(f"{where}.{name} is missing")
    allowed = {*required, *optional}
    for name in value:
        if name not in allowed:
            raise invalid_spec(f"{where} has an unknown member: {shown(name)}")
    return value


def shown(name: str, longest: int = _LONGEST_SHOWN) -> str:
    """A name that somebody else chose, in quotes: printable ASCII on one line, cut where it is long."""
    text = json.dumps(name)[1:-1]
    return f'"{text}"' if len(text) <= longest else f'"{text[: longest - 3]}..."'


def all_shown(names: Iterable[str]) -> str:
    """The first few of these names in order, each as `shown`."""
    ordered = sorted(names)
    more = len(ordered) - _MOST_SHOWN
    return ", ".join(map(shown, ordered[:_MOST_SHOWN])) + (f" and {more} more" if more > 0 else "")


def string(value: JsonValue, where: str) -> str:
    if not isinstance(value, str):
        raise invalid_spec(f"{where} is not a string")
    return value


def matching(value: JsonValue, where: str, pattern: re.Pattern[str]) -> str:
    """A string that the whole of `pattern` matches."""
    text = string(value, where)
    if pattern.fullmatch(text) is None:
        raise invalid_spec(f"{where} does not match ^{pattern.pattern}$")
    return text


def one_of(value: JsonValue, where: str, choices: Sequence[str]) -> str:
    text = string(value, where)
    if text not in choices:
        raise invalid_spec(f"{where} is none of {', '.join(choices)}")
    return text


def boolean(value: JsonValue, where: str) -> bool:
    if not isinstance(value, bool):
        raise invalid_spec(f"{where} is not a boolean")
    return value


def integer(value: JsonValue, where: str, lowest: int, highest: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
        raise invalid_spec(f"{where} is not an integer from {lowest} to {highest}")
    return value


def array(
    value: JsonValue, where: str, lowest: int, highest: int, item: Callable[[JsonValue, str], T]
) -> tuple[T, ...]:
    """An array of `lowest` to `highest` items, each read by `item(value, where)`."""
    if not isinstance(value, list) or not lowest <= len(value) <= highest:
        raise invalid_spec(f"{where} is not an array of {lowest} to {highest} items")
    return tuple(item(each, f"{where}[{index}]") for index, each in enumerate(value))


def reference(value: JsonValue, where: str) -> str:
    """The uid in exactly `{"resourceUid": uid}`."""
    uid = string(closed_object(value, where, required=("resourceUid",))["resourceUid"], f"{where}.resourceUid")
    if not is_identifier(uid):
        raise invalid_spec(f"{where}.resourceUid is not a uid")
    return uid


def check_distinct(names: Sequence[str], where: str) -> None:
    if len(set(names)) != len(names):
        raise invalid_spec(f"{where} names something twice")
