"""Which Python values a statement may be bound to. Converts nothing."""

import math
from collections.abc import Iterable
from typing import TypeGuard

from host.sqlite import Value, ValueRefused

_LEAST, _MOST = -(2**63), 2**63 - 1


def check_values(values: Iterable[object]) -> None:
    """Raise `ValueRefused` for the first that is not null, an int of 64 bits, a finite float, a text or bytes.

    A bool is refused: SQLite has none, and what reads it back would see an int. A text with a lone surrogate has no
    UTF-8 form.
    """
    for position, value in enumerate(values, 1):
        if value is None or (type(value) is str and value.isascii()):  # most are
            continue
        why = _fault(value)
        if why is not None:
            raise ValueRefused(f"parameter {position} {why}")


def is_value(value: object) -> TypeGuard[Value]:
    """Whether a value can be bound."""
    return _fault(value) is None


def _fault(value: object) -> str | None:
    if value is None or isinstance(value, bytes):
        return None
    if isinstance(value, str):
        return None if _has_utf8(value) else "is a text with a lone surrogate"
    if isinstance(value, bool):
        return "is a bool: bind 0 or 1"
    if isinstance(value, int):
        return None if _LEAST <= value <= _MOST else "is an int beyond 64 bits"
    if isinstance(value, float):
        return None if math.isfinite(value) else f"is {value}: only finite numbers are stored"
    return f"is of type {type(value).__name__}, which D1 does not store"


def _has_utf8(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
