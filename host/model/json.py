"""JSON values, the strict reading of JSON text (HA-02) and its two written forms. Knows nothing of envelopes or Forms.

Numbers keep their mathematical value: an integral literal becomes an `int` however it is spelt (`1.0`, `1e0`), and a
fraction that no double equals becomes an `ExactFloat`. Values are equal when their `canonical_text` is (HA-51, WV-06).
"""

import json
import re
from json.encoder import encode_basestring
from typing import NoReturn, TypeAlias

JsonValue: TypeAlias = bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"] | None
JsonObject: TypeAlias = dict[str, JsonValue]

MAX_DEPTH = 100
"""Containers inside each other, the outermost being the first."""
MAX_NUMBER_CHARACTERS = 4300
"""Characters of one number literal."""

_STRINGS_AND_FILLER = re.compile(r'"(?:[^"\\]|\\.)*"|[^][{}"]+', re.DOTALL)


class JsonRefused(ValueError):
    """The text is not JSON as this host reads it; `str()` says why, without quoting the text."""


class ExactFloat(float):
    """A double that stands for a literal of another mathematical value; `exact` is a JSON number of that value."""

    __slots__ = ("exact",)
    exact: str


def decode(data: bytes | str) -> JsonValue:
    """Read one JSON text. Raises `JsonRefused` for everything that HA-02 names, and beyond the two limits."""
    text = _as_text(data)
    _check_depth(text)
    try:
        value: JsonValue = json.loads(
            text,
            object_pairs_hook=_object_of,
            parse_int=_integer,
            parse_float=_decimal,
            parse_constant=_refuse_constant,
        )
    except JsonRefused:
        raise
    except ValueError as error:
        raise JsonRefused(f"not JSON: {_place(error)}") from None
    if "\\u" in text:
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
    parts: list[str] = []
    _write(value, parts, is_sorted=False)
    return "".join(parts)


def canonical_text(value: JsonValue) -> str:
    """Compact JSON text with members in UTF-16 order: equal for mathematically equal values, and only for those."""
    parts: list[str] = []
    _write(value, parts, is_sorted=True)
    return "".join(parts)


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


def _check_depth(text: str) -> None:
    depth = 0
    for bracket in _STRINGS_AND_FILLER.sub("", text):
        if bracket in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise JsonRefused(f"more than {MAX_DEPTH} containers inside each other")
        elif bracket in "]}":
            depth -= 1


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
    if len(literal) > 300:
        _check_number(literal)
    return int(literal)


def _check_number(literal: str) -> float:
    if len(literal) > MAX_NUMBER_CHARACTERS:
        raise JsonRefused(f"a number of more than {MAX_NUMBER_CHARACTERS} characters")
    number = float(literal)
    if number in (float("inf"), float("-inf")):
        raise JsonRefused("a number is beyond the range of doubles")
    return number


def _decimal(literal: str) -> int | float:
    number = _check_number(literal)
    sign, digits, exponent = _parts(literal)
    if not digits:
        return 0
    if exponent >= 0:
        return int(sign + digits + "0" * exponent)
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
        text_of(value).encode("utf-8")
    except UnicodeEncodeError:
        raise JsonRefused("a string has a surrogate without its partner") from None


def _utf16_order(name: str) -> bytes:
    return name.encode("utf-16-be", "surrogatepass")


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
        case int():
            return str(value)
        case ExactFloat():
            return value.exact
        case _:
            return _float_text(value)


def _float_text(number: float) -> str:
    if number.is_integer():
        return str(int(number))
    if number != number or number in (float("inf"), float("-inf")):
        raise ValueError("JSON has no such number")
    return repr(number)
