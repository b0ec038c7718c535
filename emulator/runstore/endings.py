"""How a run's snapshot reads once the store itself ends it: by its stored intent, or failed with a marker. Pure.

Works on text of any depth and changes no byte but the members it names.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from emulator.runstore.errors import RunLifecycleBlockedError, RunOutcomeUnreadableError
from emulator.runstore.instants import milliseconds
from emulator.runstore.rules import at, is_disputed, lifecycle_of, revision, scalar
from emulator.runstore.texts import NotJsonError, child, scan, with_members


class Disposition(StrEnum):
    """The status that an ended run is stored with."""

    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    FAILED = "failed"


class Cause(StrEnum):
    """Why a run without an intent failed; the value is its settling marker."""

    START_OUTCOME_UNKNOWN = "startOutcomeUnknownAt"
    INTERRUPTED = "interruptedAt"


_CODES: Mapping[Cause, str] = {
    Cause.START_OUTCOME_UNKNOWN: "START_OUTCOME_UNKNOWN",
    Cause.INTERRUPTED: "INTERRUPTED",
}


@dataclass(frozen=True, slots=True)
class Ending:
    """The text to store, and the status in it."""

    snapshot: str
    disposition: Disposition


def end_snapshot(snapshot: str, at_instant: str, cause: Cause, is_marked: bool) -> Ending:
    """The stored intent decides, else it failed for `cause`; `is_marked` writes the marker that settles it.

    Raises `RunLifecycleBlockedError` beside a disputed operation and `RunOutcomeUnreadableError` for a text that is
    no JSON object or an intent that names no ending.
    """
    try:
        is_object = scan(snapshot).kind == "{"
    except NotJsonError as error:
        raise RunOutcomeUnreadableError("the stored snapshot is not JSON") from error
    lifecycle = lifecycle_of(snapshot)
    if not is_object or (lifecycle not in (None, "null") and lifecycle is not None and lifecycle[0] != "{"):
        raise RunOutcomeUnreadableError("the stored snapshot is of another shape")
    if is_disputed(lifecycle):
        raise RunLifecycleBlockedError("an economic operation of the run is disputed")
    intent = at(lifecycle, "transitionIntent")
    if intent is None:
        changed = _marked(lifecycle, at_instant, cause) if is_marked else None
        return Ending(_ended(snapshot, Disposition.FAILED, _CODES[cause], at_instant, changed), Disposition.FAILED)
    disposition = _disposition(intent)
    code = disposition.value.upper()
    return Ending(
        _ended(snapshot, disposition, code, at_instant, _terminal(lifecycle, at_instant, disposition)), disposition
    )


def _disposition(intent: str) -> Disposition:
    to = scalar(child(intent, "to"))
    for each in (Disposition.CANCELLED, Disposition.TIMED_OUT):
        if to == each.value:
            return each
    raise RunOutcomeUnreadableError("the stored intent names no ending")


def _ended(snapshot: str, disposition: Disposition, code: str, at_instant: str, lifecycle: str | None) -> str:
    stored = child(snapshot, "timestamp")
    is_number = stored is not None and stored[0] in "-0123456789"
    members = {
        "status": json.dumps(disposition.value),
        "error": json.dumps({"code": code}, separators=(",", ":")),
        "timestamp": str(milliseconds(at_instant)) if is_number else json.dumps(at_instant),
    }
    return with_members(snapshot, members if lifecycle is None else {**members, "lifecycle": lifecycle})


def _advanced(lifecycle: str | None, members: Mapping[str, str | None]) -> str:
    base = '{"version":1}' if lifecycle is None or lifecycle == "null" else lifecycle
    before = revision(base)
    return with_members(base, {"revision": str((int(before) if before is not None else 0) + 1), **members})


def _marked(lifecycle: str | None, at_instant: str, cause: Cause) -> str:
    return _advanced(lifecycle, {cause.value: json.dumps(at_instant)})


def _terminal(lifecycle: str | None, at_instant: str, disposition: Disposition) -> str:
    record = {"status": disposition.value, "transitionedAt": at_instant}
    terminal = json.dumps(record, separators=(",", ":"))
    return _advanced(lifecycle, {"terminal": terminal, "transitionIntent": None})
