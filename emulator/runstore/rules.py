"""The decisions on lifecycles, in Python, for rows that SQLite cannot parse (RS-62). Pure: no row, no statement.

They read what `emulator.runstore.readings` reads in SQL: the first of repeated keys, values as SQLite's.
"""

import json
from enum import StrEnum
from typing import TypeAlias

from emulator.runstore.readings import IDENTITY, SETTLING_MARKERS
from emulator.runstore.texts import NotJsonError, child, children, minified, scan, with_members

Scalar: TypeAlias = int | float | str | None
_LARGEST = 2**63
_SURELY_64_BITS = 18  # digits


class Verdict(StrEnum):
    """What becomes of an ordinary write."""

    AS_WRITTEN = "as written"
    KEEPS_LIFECYCLE = "keeps the stored lifecycle"
    KEEPS_INTENT = "keeps the stored intent"
    REFUSED = "refused: the run is settled"


def lifecycle_of(snapshot: str) -> str | None:
    """The lifecycle's text in a snapshot of any depth; None when there is none or the text is not JSON."""
    try:
        return child(snapshot, "lifecycle")
    except NotJsonError:
        return None


def at(lifecycle: str | None, path: str) -> str | None:
    """The text at a dotted path of the lifecycle; None where nothing or null stands."""
    found = None if lifecycle is None else child(lifecycle, *path.split("."))
    return None if found == "null" else found


def scalar(text: str | None) -> Scalar:
    """The value as SQLite's `->>` gives it."""
    if text is None or text == "null":
        return None
    if text[0] in "{[":
        return minified(text)
    if text[0] == '"':
        return str(json.loads(text))
    if text in ("true", "false"):
        return int(text == "true")
    return number(text)


def number(text: str | None) -> int | float | None:
    """The number as SQLite reads it: beyond 64 bits it is a double. None for anything else."""
    if text is None or text[0] not in "-0123456789":
        return None
    if len(text) <= _SURELY_64_BITS and text.isdigit():
        return int(text)
    if any(character in text for character in ".eE"):
        return float(text)
    if len(text) > 20 or not -_LARGEST <= int(text) < _LARGEST:
        return float(text)
    return int(text)


def revision(lifecycle: str | None) -> int | float | None:
    """The lifecycle's revision."""
    return number(at(lifecycle, "revision"))


def is_settled(lifecycle: str | None) -> bool:
    """RS-60: a terminal record or another settling marker."""
    return any(at(lifecycle, marker) is not None for marker in SETTLING_MARKERS)


def is_disputed(lifecycle: str | None) -> bool:
    """Some economic operation is recorded as disputed."""
    operations = at(lifecycle, "economicOperations")
    if operations is None or scan(operations).kind not in "{[":
        return False
    return any(each[0] == "{" and scalar(child(each, "settlementState")) == "disputed" for each in children(operations))


def _identity(lifecycle: str | None) -> list[str | None]:
    found = (None if lifecycle is None else child(lifecycle, *path.split(".")) for path in IDENTITY)
    return [None if text is None else minified(text) for text in found]


def judge_write(stored: str | None, new: str | None) -> Verdict:
    """What becomes of a write with lifecycle `new` over a row with lifecycle `stored` (RS-60, RS-61)."""
    stored = None if stored == "null" else stored
    ours, theirs = revision(new), revision(stored)
    if is_settled(stored):
        is_higher = ours is not None and theirs is not None and ours > theirs
        return Verdict.AS_WRITTEN if is_higher and _identity(stored) == _identity(new) else Verdict.REFUSED
    intent = at(stored, "transitionIntent")
    if stored is not None and (ours is None or (theirs is not None and ours < theirs)):
        records_dispute = intent is not None and ours is not None and is_disputed(new)
        return Verdict.AS_WRITTEN if records_dispute else Verdict.KEEPS_LIFECYCLE
    if ours is None or ours != theirs or intent is None or at(new, "transitionIntent") is not None:
        return Verdict.AS_WRITTEN
    return Verdict.AS_WRITTEN if is_disputed(new) or _is_moved(intent, new) else Verdict.KEEPS_INTENT


def _is_moved(intent: str, new: str | None) -> bool:
    named = at(intent, "expectedDeadlineAt")
    return named is not None and scalar(named) != scalar(at(new, "deadlineAt"))


def merge(snapshot: str, stored: str | None, verdict: Verdict) -> str:
    """The text to store for a write that was not refused."""
    if stored is None or verdict not in (Verdict.KEEPS_LIFECYCLE, Verdict.KEEPS_INTENT):
        return snapshot
    if verdict is Verdict.KEEPS_LIFECYCLE:
        return with_members(snapshot, {"lifecycle": stored})
    new, intent = lifecycle_of(snapshot), at(stored, "transitionIntent")
    assert new is not None
    return with_members(snapshot, {"lifecycle": with_members(new, {"transitionIntent": intent})})
