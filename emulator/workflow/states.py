"""Which state of an instance may follow which, as a table. Knows no row and no process.

`stopping` is a row that still reads `running` and carries a transition intent: its owner is fenced and its code is
not yet known to have stopped (DW-39).
"""

from enum import StrEnum
from types import MappingProxyType

from emulator.runstore.snapshot import RunStatus


class State(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    STOPPING = "stopping"
    SLEEPING = "sleeping"
    WAITING = "waiting"
    COMPLETE = "complete"
    ERRORED = "errored"
    TERMINATED = "terminated"


class Event(StrEnum):
    DUE = "due"  # the instant of a sleep, a delayed retry or a wait has come, or its event
    CLAIM = "claim"  # a context is about to start
    STOP = "stop"  # an intent is recorded and the owner fenced
    REQUEUE = "requeue"  # the rest: what is done once the code has stopped
    SLEEP = "sleep"
    WAIT = "wait"
    COMPLETE = "complete"
    FAIL = "fail"
    TERMINATE = "terminate"


class IllegalTransition(Exception):
    """The table has no such pair; nothing was changed."""


_ENDS = {Event.TERMINATE: State.TERMINATED, Event.FAIL: State.ERRORED}
_ASLEEP = {Event.DUE: State.QUEUED, **_ENDS}

TABLE = MappingProxyType(
    {
        **{(state, event): target for state in (State.SLEEPING, State.WAITING) for event, target in _ASLEEP.items()},
        **{(State.QUEUED, event): target for event, target in _ENDS.items()},
        (State.QUEUED, Event.CLAIM): State.RUNNING,
        (State.RUNNING, Event.STOP): State.STOPPING,
        (State.STOPPING, Event.STOP): State.STOPPING,
        (State.STOPPING, Event.REQUEUE): State.QUEUED,
        (State.STOPPING, Event.SLEEP): State.SLEEPING,
        (State.STOPPING, Event.WAIT): State.WAITING,
        (State.STOPPING, Event.COMPLETE): State.COMPLETE,
        (State.STOPPING, Event.FAIL): State.ERRORED,
        (State.STOPPING, Event.TERMINATE): State.TERMINATED,
        (State.COMPLETE, Event.TERMINATE): State.COMPLETE,
        (State.ERRORED, Event.TERMINATE): State.ERRORED,
        (State.TERMINATED, Event.TERMINATE): State.TERMINATED,
    }
)


def after(state: State, event: Event) -> State:
    """The state that follows. Raises `IllegalTransition`."""
    try:
        return TABLE[state, event]
    except KeyError:
        raise IllegalTransition(f"{event} of a {state} instance") from None


def stored(state: State) -> RunStatus:
    """The status text of the run store for a state."""
    match state:
        case State.QUEUED:
            return RunStatus.PENDING
        case State.STOPPING:
            return RunStatus.RUNNING
        case _:
            return RunStatus(state.value)


def shown(status: RunStatus) -> str:
    """The status as the caller binding names it (DW-12)."""
    return State.QUEUED.value if status is RunStatus.PENDING else status.value


def leaving(event: Event) -> tuple[RunStatus, ...]:
    """Stored statuses from which `event` leads to another state, in table order: the condition of a statement."""
    found = {stored(source): None for (source, by), target in TABLE.items() if by is event and source is not target}
    return tuple(found)
