"""JSON values, the strict reading of JSON text (HA-02) and its two written forms. Knows nothing of envelopes or Forms.

Numbers keep their mathematical value: an integral literal becomes an `int` however it is spelt (`1.0`, `1e0`), and a
fraction that no double equals becomes an `ExactFloat`. Values are equal when their `canonical_text` is (HA-51, WV-06).

A text of a million bytes holds up to half a million values, so whatever is done for each of them is done by loops that
run in C: no Python code runs per value, but for objects, numbers with a fraction or an exponent, and the rare values
of `ExactFloat` and `LongInteger`.
"""

import json
import re
from collections.abc import Callable, Iterator
from itertools import chain
from json.encoder import encode_basestring
from types import NoneType
from typing import Any, NoReturn, TypeAlias

JsonValue: TypeAlias = bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"] | None
JsonObject: TypeAlias = dict[str, JsonValue]

MAX_DEPTH = 100
"""Containers inside each other, the outermost being the first."""
MAX_NUMBER_CHARACTERS = 4300
"""Characters of one number literal."""

_LONGEST_PLAIN_INTEGER = 40
"""Digits of an integer that is written out; one with more is a `LongInteger`."""
_DIGIT_RUNS = bytes(ord("0") if chr(byte) in "0123456789" else ord(" ") for byte in range(256))
_LONG_RUN = b"0" * (_LONGEST_PLAIN_INTEGER + 1)
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_BEYOND_PLANE = re.compile("[\U00010000-\U0010ffff]")
_ABOVE_SURROGATES = re.compile("[\ue000-\uffff]")
_PLAIN_KINDS = frozenset({NoneType, bool, int, float, str, list, dict})
_PLAIN, _PLAIN_SORTED = (
    json.JSONEncoder(
        ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":"), sort_keys=is_sorted
    )
    for is_sorted in (False, True)
)


class JsonRefused(ValueError):
    """The text is not JSON as this host reads it; `str()` says why, without quoting the text."""


class ExactFloat(float):
    """A double that stands for a literal of another mathematical value; `exact` is a JSON number of that value."""

    __slots__ = ("exact",)
    exact: str


class LongInteger(int):
    """An integer of very many digits, made by `decode` alone; `exact` is the shortest JSON number of that value.

    What is written holds `1e300`, not 301 digits, and so a text of nothing else stays as short as it was.
    """

    exact: str


class _Numbers(dict[str, int | float]):
    """Numbers by their literals; each spelling is worked out once."""

    def __init__(self, read: Callable[[str], int | float]) -> None:
        super().__init__()
        self._read = read

    def __missing__(self, literal: str) -> int | float:
        number = self[literal] = self._read(literal)
        return number


def decode(data: bytes | str) -> JsonValue:
    """Read one JSON text. Raises `JsonRefused` for everything that HA-02 names, and beyond the two limits."""
    text = _as_text(data)
    try:
        value: JsonValue = json.loads(
            text,
            object_pairs_hook=_object_of,
            parse_int=_Numbers(_integer).__getitem__ if _has_long_run(text) else None,
            parse_float=_Numbers(_decimal).__getitem__,
            parse_constant=_refuse_constant,
        )
    except JsonRefused:
        raise
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        raise JsonRefused(f"not JSON: {_place(error)}") from None
    if text.count("[") + text.count("{") > MAX_DEPTH:
        _check_depth(value)
    if _SURROGATE_ESCAPE.search(text) is not None:
        _check_surrogates(value)
    return value


def decode_object(data: bytes | str) -> JsonObject:
    """Read a JSON text whose root is an object. Raises `JsonRefused`."""
    value = decode(data)
    if not isinstance(value, dict):
        raise JsonRefused("the root is not an object")
    return value


def text_of(value: JsonValue) -> str:
    """Compact JSON text in the members' own order; numbers keep their exact value."""
    return _PLAIN.encode(value) if _is_plain(value) else _written(value, is_sorted=False)


def canonical_text(value: JsonValue) -> str:
    """Compact JSON text with members in UTF-16 order: equal for mathematically equal values, and only for those."""
    if not _is_plain(value):
        return _written(value, is_sorted=True)
    text = _PLAIN_SORTED.encode(value)
    is_ordered = text.isascii() or _BEYOND_PLANE.search(text) is None or _ABOVE_SURROGATES.search(text) is None
    return text if is_ordered else _written(value, is_sorted=True)


def is_exact_double(number: int) -> bool:
    """Whether JavaScript can hold the integer without rounding it."""
    return int(float(number)) == number


def _as_text(data: bytes | str) -> str:
    if isinstance(data, str):
        return data
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise JsonRefused(f"not UTF-8 at byte {error.start}") from None


def _has_long_run(text: str) -> bool:
    """Whether an integer literal may be a `LongInteger`; a string of many digits looks the same."""
    return _LONG_RUN in text.encode("utf-8", "surrogatepass").translate(_DIGIT_RUNS)


def _levels(value: JsonValue) -> Iterator[tuple[list[JsonValue], set[type]]]:
    """The values that lie in no container, in one, in two and so on, with their types."""
    level: list[JsonValue] = [value]
    while level:
        kinds = set(map(type, level))
        yield level, kinds
        lists, objects = _of_kind(list, level, kinds), _of_kind(dict, level, kinds)
        level = list(chain(chain.from_iterable(lists), chain.from_iterable(map(dict.values, objects))))


def _of_kind(kind: type, level: list[JsonValue], kinds: set[type]) -> list[Any]:
    if kind not in kinds:
        return []
    return level if len(kinds) == 1 else [each for each in level if type(each) is kind]


def _is_plain(value: JsonValue) -> bool:
    """Whether the standard encoder writes it as it is to be written here: it spells `2.0` otherwise."""
    for level, kinds in _levels(value):
        if not kinds <= _PLAIN_KINDS:
            return False
        if any(map(float.is_integer, _of_kind(float, level, kinds))):
            return False
    return True


def _check_depth(value: JsonValue) -> None:
    for depth, (_, kinds) in enumerate(_levels(value), 1):
        if depth > MAX_DEPTH and (list in kinds or dict in kinds):
            raise _too_deep()


def _too_deep() -> JsonRefused:
    return JsonRefused(f"more than {MAX_DEPTH} containers inside each other")


def _place(error: ValueError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.pos}"
    return "a value cannot be read"


def _object_of(pairs: list[tuple[str, JsonValue]]) -> JsonObject:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise JsonRefused("an object names a member twice")
    return members


def _refuse_constant(name: str) -> NoReturn:
    raise JsonRefused(f"{name} is not a JSON number")


def _integer(literal: str) -> int:
    if len(literal) <= _LONGEST_PLAIN_INTEGER:
        return int(literal)
    _check_number(literal)
    return _whole(*_parts(literal))


def _whole(sign: str, digits: str, exponent: int) -> int:
    """The integer of these parts, as `_parts` gives them."""
    if not digits:
        return 0
    if len(digits) + exponent <= _LONGEST_PLAIN_INTEGER:
        return int(sign + digits + "0" * exponent)
    number = LongInteger(sign + digits + "0" * exponent)
    number.exact = f"{sign}{digits}e{exponent}" if exponent else sign + digits
    return number


def _check_number(literal: str) -> float:
    if len(literal) > MAX_NUMBER_CHARACTERS:
        raise JsonRefused(f"a number of more than {MAX_NUMBER_CHARACTERS} characters")
    number = float(literal)
    if number in (float("inf"), float("-inf")):
        raise JsonRefused("a number is beyond the range of doubles")
    return number


def _decimal(literal: str) -> int | float:
    if len(literal) <= 17 and "e" not in literal.lower():
        return _short_decimal(float(literal))
    return _long_decimal(literal)


def _short_decimal(number: float) -> int | float:
    """Of at most 15 digits, no two of which spell the same double: it is what it stands for."""
    return int(number) if number.is_integer() else number


def _long_decimal(literal: str) -> int | float:
    number = _check_number(literal)
    sign, digits, exponent = _parts(literal)
    if exponent >= 0 or not digits:
        return _whole(sign, digits, exponent)
    if _parts(repr(number)) == (sign, digits, exponent):
        return number
    exact = ExactFloat(number)
    exact.exact = f"{sign}{digits}e{exponent}"
    return exact


def _parts(literal: str) -> tuple[str, str, int]:
    """Sign, significant digits without zeros at either end, and the power of ten they are multiplied with."""
    mantissa, _, exponent = literal.lower().partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.removeprefix("-").partition(".")
    digits = (whole + fraction).lstrip("0")
    significant = digits.rstrip("0")
    return sign, significant, int(exponent or "0") - len(fraction) + len(digits) - len(significant)


def _check_surrogates(value: JsonValue) -> None:
    try:
        _PLAIN.encode(value).encode("utf-8")
    except UnicodeEncodeError:
        raise JsonRefused("a string has a surrogate without its partner") from None


def _utf16_order(name: str) -> bytes:
    return name.encode("utf-16-be", "surrogatepass")


def _written(value: JsonValue, is_sorted: bool) -> str:
    """For every value; the encoder of the standard library is faster by far where it does."""
    parts: list[str] = []
    _write(value, parts, is_sorted)
    return "".join(parts)


def _write(value: JsonValue, parts: list[str], is_sorted: bool) -> None:
    match value:
        case dict():
            separator = "{"
            for name in sorted(value, key=_utf16_order) if is_sorted else value:
                parts += (separator, encode_basestring(name), ":")
                _write(value[name], parts, is_sorted)
                separator = ","
            parts.append("}" if value else "{}")
        case list():
            separator = "["
            for item in value:
                parts.append(separator)
                _write(item, parts, is_sorted)
                separator = ","
            parts.append("]" if value else "[]")
        case _:
            parts.append(_scalar_text(value))


def _scalar_text(value: bool | float | str | None) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return encode_basestring(value)
        case LongInteger() | ExactFloat():
            return value.exact
        case int():
            return str(value)
        case _:
            return _float_text(value)


def _float_text(number: float) -> str:
    if number.is_integer():
        return _scalar_text(_whole(*_parts(str(int(number)))))
    if number != number or number in (float("inf"), float("-inf")):
        raise ValueError("JSON has no such number")
    return repr(number)
