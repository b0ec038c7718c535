"""The life of an Operation and what it makes of its Resource's phase: tables and nothing else (HA-39, HA-42)."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import assert_never


class Action(StrEnum):
    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


class Status(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    WAITING_INPUT = "waiting_input"
    RECONCILING = "reconciling"
    SUCCEEDED = "succeeded"
    FAILED = "failed"

    @property
    def is_terminal(self) -> bool:
        return self in (Status.SUCCEEDED, Status.FAILED)


class Effect(StrEnum):
    NONE = "none"
    UNKNOWN = "unknown"
    PARTIAL = "partial"
    COMPLETE = "complete"


class Event(StrEnum):
    """What can happen to an Operation."""

    TAKE = "take"
    LOSE_TRACK = "lose_track"
    ASK_INPUT = "ask_input"
    GET_INPUT = "get_input"
    SUCCEED = "succeed"
    FAIL = "fail"


class Phase(StrEnum):
    PENDING = "pending"
    IDLE = "idle"
    DELETING = "deleting"
    ERROR = "error"


class IllegalTransition(Exception):
    """An event that the status does not allow; nothing was changed."""


TRANSITIONS: Mapping[tuple[Status, Event], Status] = MappingProxyType(
    {
        (Status.QUEUED, Event.TAKE): Status.RUNNING,
        (Status.QUEUED, Event.ASK_INPUT): Status.WAITING_INPUT,
        (Status.WAITING_INPUT, Event.GET_INPUT): Status.QUEUED,
        (Status.RUNNING, Event.SUCCEED): Status.SUCCEEDED,
        (Status.RUNNING, Event.FAIL): Status.FAILED,
        (Status.RUNNING, Event.LOSE_TRACK): Status.RECONCILING,
        (Status.RUNNING, Event.ASK_INPUT): Status.WAITING_INPUT,
        (Status.RECONCILING, Event.TAKE): Status.RUNNING,
        (Status.RECONCILING, Event.SUCCEED): Status.SUCCEEDED,
        (Status.RECONCILING, Event.FAIL): Status.FAILED,
    }
)

EFFECTS: Mapping[Status, frozenset[Effect]] = MappingProxyType(
    {
        Status.QUEUED: frozenset({Effect.NONE, Effect.PARTIAL}),
        Status.RUNNING: frozenset({Effect.UNKNOWN, Effect.PARTIAL}),
        Status.WAITING_INPUT: frozenset({Effect.NONE, Effect.PARTIAL}),
        Status.RECONCILING: frozenset({Effect.UNKNOWN, Effect.PARTIAL}),
        Status.SUCCEEDED: frozenset({Effect.COMPLETE}),
        Status.FAILED: frozenset({Effect.NONE, Effect.PARTIAL}),
    }
)


def after(status: Status, event: Event) -> Status:
    """The status that follows. Raises `IllegalTransition`."""
    following = TRANSITIONS.get((status, event))
    if following is None:
        raise IllegalTransition(f"{status} does not allow {event}")
    return following


def check_effect(status: Status, effect: Effect) -> Effect:
    """The effect, when an Operation of this status may have it. Raises `IllegalTransition`."""
    if effect not in EFFECTS[status]:
        raise IllegalTransition(f"{status} cannot have the effect {effect}")
    return effect


def phase_for(action: Action, status: Status) -> Phase:
    """The phase that the last accepted Operation gives its Resource; a deleted Resource has none (HA-39)."""
    match status:
        case Status.SUCCEEDED:
            return Phase.IDLE
        case Status.FAILED:
            return Phase.ERROR
        case Status.QUEUED | Status.RUNNING | Status.WAITING_INPUT | Status.RECONCILING:
            return Phase.DELETING if action is Action.DELETE else Phase.PENDING
        case other:
            assert_never(other)
