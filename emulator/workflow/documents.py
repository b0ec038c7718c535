"""Whether a text from an isolate is the canonical text of a document (DW-14, RFC 8785). Changes no byte, knows no use.

Most texts are settled by the C decoder and encoder of `json`. Where these could disagree with RFC 8785 (fractions,
astral characters, great depth) a scanner of our own decides; it keeps its own stack, so no depth defeats it.
"""

import json
from collections.abc import Callable

from emulator.workflow.canonical import NotCanonical, scan

LARGEST_DOCUMENT_BYTES = 1_048_576
MOST_PROPERTIES = 1024
_EXACT_INTEGER_DIGITS = 15
_LAST_UNIT_BEFORE_SURROGATES = "\ud7ff"


class DocumentRefused(ValueError):
    """Not the canonical text of a document."""


class DocumentTooLarge(DocumentRefused):
    """More than 1048576 bytes of canonical text (DW-15)."""


class _Undecided(Exception):
    """The quick way cannot tell."""


def _undecided(_: str) -> float:
    raise _Undecided


def _integer(text: str) -> int:
    if len(text) > _EXACT_INTEGER_DIGITS:
        raise _Undecided
    return int(text)


def _bounded(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len(pairs) > MOST_PROPERTIES:
        raise NotCanonical(f"an object has more than {MOST_PROPERTIES} properties")
    return dict(pairs)


_decode: Callable[[str], object] = json.JSONDecoder(
    object_pairs_hook=_bounded, parse_float=_undecided, parse_int=_integer, parse_constant=_undecided
).decode
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode


def _is_quickly_settled(text: str) -> bool:
    """True for a canonical document, False when only the scanner can tell. Raises `NotCanonical`."""
    if max(text, default="") > _LAST_UNIT_BEFORE_SURROGATES:
        return False
    try:
        value = _decode(text)
        return isinstance(value, dict) and _encode(value) == text
    except (_Undecided, RecursionError, ValueError):
        return False


def check_document(text: str) -> None:
    """Return for canonical text of at most 1048576 bytes with an object at its root, 1024 properties an object.

    Raises `DocumentTooLarge`, `DocumentRefused`.
    """
    try:
        size_bytes = len(text.encode())
    except UnicodeEncodeError as error:
        raise DocumentRefused("the text holds a lone surrogate") from error
    if size_bytes > LARGEST_DOCUMENT_BYTES:
        raise DocumentTooLarge(f"the canonical text has {size_bytes} bytes, more than {LARGEST_DOCUMENT_BYTES}")
    if not text.startswith("{"):
        raise DocumentRefused("the root is no object: wrap the value, as in {value: ...}, or give nothing")
    try:
        if not _is_quickly_settled(text):
            scan(text, MOST_PROPERTIES)
    except NotCanonical as error:
        raise DocumentRefused(str(error)) from error
