"""The JSON form of values that cross a process: bytes as padded standard base64, large integers as text.

Reads strictly: one value has one spelling.
"""

import base64
import binascii

from emulator.d1.values import is_value
from host.model.json import JsonValue
from host.sqlite import Value, ValueRefused

_EXACT = 2**53


def encode_value(value: Value) -> JsonValue:
    """`{"bytes": base64}` for bytes, `{"int": decimal}` beyond 2^53, else the value itself."""
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, int) and not -_EXACT <= value <= _EXACT:
        return {"int": str(value)}
    return value


def decode_value(wire: JsonValue) -> Value:
    """Read one value. Raises `ValueRefused` for anything that `encode_value` would not have written."""
    match wire:
        case {"bytes": str(text), **rest} if not rest:
            return _decode_bytes(text)
        case {"int": str(text), **rest} if not rest:
            return _decode_int(text)
        case None | int() | float() | str() if is_value(wire):
            return wire
    raise ValueRefused("a value on the wire is null, a number, a text, or an object of bytes or int")


def _decode_bytes(text: str) -> bytes:
    try:
        value = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueRefused("bytes are padded standard base64") from error
    if base64.b64encode(value).decode() != text:
        raise ValueRefused("bytes are padded standard base64 without trailing bits")
    return value


def _decode_int(text: str) -> int:
    if not text.lstrip("-").isdecimal() or not text.isascii():
        raise ValueRefused("an int on the wire is decimal")
    value = int(text) if len(text) <= 20 else 0
    if str(value) != text or not is_value(value) or -_EXACT <= value <= _EXACT:
        raise ValueRefused("an int on the wire is the decimal form of 64 bits beyond 2^53")
    return value
