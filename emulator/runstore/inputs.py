"""What callers hand to the run store, as values, and the checks that raise before anything is written."""

from dataclasses import dataclass

from emulator.runstore.address import RunAddress
from emulator.runstore.errors import MalformedRunInputError, RunStateNotStorableError
from emulator.runstore.instants import LATEST_MS, milliseconds
from emulator.runstore.rows import RunRow
from emulator.runstore.rules import number
from emulator.runstore.texts import NotJsonError, Number, child, most_depth, quick_members, scan

DEEPEST = 1000
"""Containers inside each other that SQLite's JSON functions read, the outermost being the first."""
_LONGEST_ID = 256
_LARGEST_REVISION = 2**53 - 1


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a patch compares (RS-40): `lifecycle` is the text that `read_snapshot` gave, never one dumped again."""

    status: str
    lifecycle_revision: int | None = None
    lifecycle: str | None = None


@dataclass(frozen=True, slots=True)
class LifecyclePatch:
    """The only parts a patch writes: `lifecycle` is the text of a JSON object, `timestamp` Unix ms or an instant."""

    lifecycle: str
    timestamp: int | str
    updated_at: str


@dataclass(frozen=True, slots=True)
class Replacement:
    """What takes the place of a snapshot (RS-30)."""

    snapshot: str
    updated_at: str


@dataclass(frozen=True, slots=True)
class Reservation:
    """A start's idempotency key, held by the attempt that has the token."""

    key: str
    token: str


@dataclass(frozen=True, slots=True)
class InitialAdmission:
    """The one run that an admission scope admits (RS-11)."""

    address: RunAddress
    reservation: Reservation | None = None


@dataclass(frozen=True, slots=True)
class InitialTerminalization:
    """Ends a start whose outcome is unknown (RS-13). `leg_is_stopped` is said only on evidence of the stop."""

    expected: RunRow
    at: str
    leg_is_stopped: bool = False


def require_address(address: RunAddress) -> None:
    """Two texts of 1 to 256 Unicode scalar values. Raises `MalformedRunInputError`."""
    for name, value in (("workflow_id", address.workflow_id), ("run_id", address.run_id)):
        if not isinstance(value, str) or not 1 <= len(value) <= _LONGEST_ID or not _is_text(value):
            raise MalformedRunInputError(f"{name} is not a text of 1 to {_LONGEST_ID} Unicode scalar values")


def require_instant(text: str, name: str) -> None:
    """Exactly the text of `toISOString()`. Raises `MalformedRunInputError`."""
    if not isinstance(text, str) or milliseconds(text) is None:
        raise MalformedRunInputError(f"{name} is not an instant as toISOString() writes it")


def require_object_start(snapshot: str, name: str = "snapshot") -> None:
    """The cheap half of the check: what SQLite would take for JSON is then an object. Raises `MalformedRunInputError`.

    SQLite ends a text at U+0000, so that one is found here.
    """
    if not isinstance(snapshot, str) or not _is_text(snapshot):
        raise MalformedRunInputError(f"{name} is not a text")
    if "\0" in snapshot or not snapshot.lstrip(" \t\n\r").startswith("{"):
        raise MalformedRunInputError(f"{name} is not a JSON object")


def require_object(text: str, name: str) -> dict[str, object] | None:
    """Strict JSON of any depth whose root is an object (RS-63). Raises `MalformedRunInputError`.

    Gives what `quick_members` gave.
    """
    require_object_start(text, name)
    members = quick_members(text)
    if members is None:
        try:
            scan(text)
        except NotJsonError as error:
            raise MalformedRunInputError(f"{name} is not a JSON object: {error}") from error
    return members


def nests_too_deep(text: str, deepest: int = DEEPEST) -> bool:
    """Whether SQLite cannot parse a text of strict JSON."""
    return most_depth(text) > deepest and scan(text).depth > deepest


def require_expectation(expected: Expectation) -> None:
    """Raises `MalformedRunInputError`."""
    if not isinstance(expected.status, str) or not expected.status or not _is_text(expected.status):
        raise MalformedRunInputError("the expected status is not a text")
    if expected.lifecycle_revision is not None:
        _require_revision(expected.lifecycle_revision, "the expected revision")
    if expected.lifecycle is not None:
        require_object(expected.lifecycle, "the expected lifecycle")


def require_patch(patch: LifecyclePatch, expected: Expectation) -> None:
    """Raises `MalformedRunInputError`, and `RunStateNotStorableError` for a lifecycle that nests too deep for a row."""
    members = require_object(patch.lifecycle, "the lifecycle")
    written = _revision_of(patch.lifecycle, members)
    _require_revision(written, "the lifecycle's revision")
    if expected.lifecycle_revision is not None and written is not None and written < expected.lifecycle_revision:
        raise MalformedRunInputError("the lifecycle's revision only grows")
    require_instant(patch.updated_at, "updated_at")
    _require_timestamp(patch.timestamp)
    if nests_too_deep(patch.lifecycle, DEEPEST - 1):
        raise RunStateNotStorableError("SQLite cannot parse a lifecycle nested so deep")


def _revision_of(lifecycle: str, members: dict[str, object] | None) -> int | float | None:
    if members is None:
        return number(child(lifecycle, "revision"))
    found = members.get("revision")
    return number(found) if isinstance(found, Number) else None


def _require_revision(value: object, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _LARGEST_REVISION:
        raise MalformedRunInputError(f"{name} is not an integer of 0 to 2^53 - 1")


def _require_timestamp(value: int | str) -> None:
    if isinstance(value, str):
        require_instant(value, "timestamp")
    elif isinstance(value, bool) or not isinstance(value, int) or abs(value) > LATEST_MS:
        raise MalformedRunInputError("timestamp is neither Unix milliseconds nor an instant")


def _is_text(value: str) -> bool:
    """Whether it has a UTF-8 form: no lone surrogate."""
    return value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value)
