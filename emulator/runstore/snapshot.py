"""The snapshot of a run as values, and its JSON text. Decides nothing about what may follow what.

Statuses are those of the run store: `pending` is what a Workflow calls `queued`. `params` and `output` are strings
that hold canonical text, so that no store ever re-serialises a document.
"""

import json
from dataclasses import dataclass
from enum import StrEnum

from host.model.json import JsonObject, JsonValue

LIFECYCLE_VERSION = 1


class RunStatus(StrEnum):
    """The stored status text."""

    PENDING = "pending"
    RUNNING = "running"
    SLEEPING = "sleeping"
    WAITING = "waiting"
    COMPLETE = "complete"
    ERRORED = "errored"
    TERMINATED = "terminated"


PARKED = (RunStatus.PENDING, RunStatus.SLEEPING, RunStatus.WAITING)
TERMINAL = (RunStatus.COMPLETE, RunStatus.ERRORED, RunStatus.TERMINATED)


@dataclass(frozen=True, slots=True)
class TransitionIntent:
    """Where the run goes once its code is known to have stopped; `at` is an RFC 3339 instant."""

    to: RunStatus
    at: str


@dataclass(frozen=True, slots=True)
class TerminalRecord:
    """What settles a run: the status it ended with, and when (RS-60)."""

    status: RunStatus
    transitioned_at: str


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """What is compared: who may write (`owner`), how often that changed (`revision`, only grows), what comes next."""

    revision: int
    owner: str
    pinned: str | None = None
    deadline_at: str | None = None
    transition_intent: TransitionIntent | None = None
    terminal: TerminalRecord | None = None


@dataclass(frozen=True, slots=True)
class RunFailure:
    """`reason` is one of the five of DW-13."""

    reason: str
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One run; `params` and `output` are canonical document texts."""

    status: RunStatus
    timestamp: str
    lifecycle: Lifecycle
    params: str | None = None
    output: str | None = None
    error: RunFailure | None = None


class SnapshotUnreadable(ValueError):
    """The text is JSON of another shape; a row of another writer."""


def encode(snapshot: Snapshot) -> str:
    """The stored text; members in the order of the dataclasses, lifecycle before the large ones."""
    life = snapshot.lifecycle
    lifecycle: JsonObject = {"version": LIFECYCLE_VERSION, "revision": life.revision, "owner": life.owner}
    if life.pinned is not None:
        lifecycle["pinned"] = life.pinned
    if life.deadline_at is not None:
        lifecycle["deadlineAt"] = life.deadline_at
    if life.transition_intent is not None:
        lifecycle["transitionIntent"] = {"to": life.transition_intent.to.value, "at": life.transition_intent.at}
    if life.terminal is not None:
        ended = life.terminal
        lifecycle["terminal"] = {"status": ended.status.value, "transitionedAt": ended.transitioned_at}
    whole: JsonObject = {"status": snapshot.status.value, "timestamp": snapshot.timestamp, "lifecycle": lifecycle}
    if snapshot.params is not None:
        whole["params"] = snapshot.params
    if snapshot.output is not None:
        whole["output"] = snapshot.output
    if snapshot.error is not None:
        whole["error"] = _failure(snapshot.error)
    return json.dumps(whole, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _failure(error: RunFailure) -> JsonObject:
    return {"reason": error.reason} if error.message is None else {"reason": error.reason, "message": error.message}


def encode_failure(error: RunFailure) -> str:
    """The JSON text of an `error` member."""
    return json.dumps(_failure(error), ensure_ascii=False, separators=(",", ":"))


def encode_intent(intent: TransitionIntent) -> str:
    """The JSON text of a `transitionIntent` member."""
    return json.dumps({"to": intent.to.value, "at": intent.at}, separators=(",", ":"))


def _first_wins(pairs: list[tuple[str, JsonValue]]) -> JsonObject:
    """SQLite reads the first of repeated keys, so a decision made here does as well (RS-01)."""
    found: JsonObject = {}
    for key, value in pairs:
        found.setdefault(key, value)
    return found


def decode(text: str) -> Snapshot:
    """Read a stored text. Raises `SnapshotUnreadable`."""
    try:
        whole = json.loads(text, object_pairs_hook=_first_wins)
        life = whole["lifecycle"]
        intent = life.get("transitionIntent")
        terminal = life.get("terminal")
        error = whole.get("error")
        return Snapshot(
            status=RunStatus(whole["status"]),
            timestamp=whole["timestamp"],
            lifecycle=Lifecycle(
                revision=life["revision"],
                owner=life["owner"],
                pinned=life.get("pinned"),
                deadline_at=life.get("deadlineAt"),
                transition_intent=intent and TransitionIntent(RunStatus(intent["to"]), intent["at"]),
                terminal=terminal and TerminalRecord(RunStatus(terminal["status"]), terminal["transitionedAt"]),
            ),
            params=whole.get("params"),
            output=whole.get("output"),
            error=error and RunFailure(error["reason"], error.get("message")),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise SnapshotUnreadable(f"not a run snapshot: {error}") from error
