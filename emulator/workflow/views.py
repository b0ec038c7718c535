"""What is recorded of an instance, as plain values for people. Knows no table."""

from dataclasses import dataclass
from typing import Generic, TypeVar

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """Some of a long list; `after` is the place to go on after, None at its end."""

    items: tuple[Item, ...]
    after: int | None = None


@dataclass(frozen=True, slots=True)
class StopView:
    """How a context is known to act no more: ack, exit, lost_host or unstarted."""

    kind: str
    exit_status: int | None
    at: str


@dataclass(frozen=True, slots=True)
class ContextView:
    """One execution context, with the Version it was pinned to. `ending` says why it ended."""

    ord: int
    version_uid: str
    started_at: str
    pid: int | None
    ending: str | None
    stop: StopView | None


@dataclass(frozen=True, slots=True)
class AttemptView:
    """One attempt of a `do`: `outcome` is succeeded, failed or, while it may be under way, none."""

    number: int
    outcome: str | None
    begun_at: str | None
    settled_at: str | None
    message: str | None


@dataclass(frozen=True, slots=True)
class StepView:
    """One step name. `attempts` of a `do` in order; `due_at` is the deadline of a sleep, wait or retry."""

    name: str
    kind: str
    state: str
    attempts: tuple[AttemptView, ...]
    settings: str | None
    begun_at: str
    due_at: str | None
    settled_at: str | None
    text: str | None


@dataclass(frozen=True, slots=True)
class EventView:
    """An event that is queued and not consumed."""

    ord: int
    type: str
    accepted_at: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class InstanceView:
    """One line of a list: `due_at` is when the instance goes on by itself, `ord` its place in order of creation."""

    ord: int
    workflow_uid: str
    instance_id: str
    status: str
    created_at: str
    updated_at: str
    due_at: str | None


@dataclass(frozen=True, slots=True)
class InstanceHistory:
    """Everything that is recorded of an instance; texts are canonical documents or failure messages.

    Contexts and steps that are many stand here with their first page; the places to go on after tell of more.
    """

    instance: InstanceView
    params: str | None
    output: str | None
    reason: str | None
    message: str | None
    contexts: tuple[ContextView, ...]
    steps: tuple[StepView, ...]
    events: tuple[EventView, ...]
    more_contexts_after: int | None = None
    more_steps_after: int | None = None
