"""An instance as the management listener shows it, as values. Knows no request."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

TERMINAL = frozenset(("complete", "errored", "terminated"))


@dataclass(frozen=True, slots=True)
class StepSighting:
    """Times are Unix milliseconds; `settled_ms` is None while the step is pending."""

    name: str
    kind: str
    state: str
    attempts: int
    begun_ms: int
    settled_ms: int | None
    due_ms: int | None
    result: Any


@dataclass(frozen=True, slots=True)
class ContextSighting:
    order: int
    version_uid: str
    started_ms: int
    pid: int | None
    stop_kind: str | None
    exit_status: int | None
    stopped_ms: int | None
    ending: str | None


@dataclass(frozen=True, slots=True)
class Sighting:
    id: str
    status: str
    output: Any
    error: dict[str, Any] | None
    steps: tuple[StepSighting, ...]
    contexts: tuple[ContextSighting, ...]
    queued_events: int

    @property
    def is_terminal(self) -> bool:
        return self.status in TERMINAL

    def pending_step(self) -> str | None:
        """Name of the step that is under way or awaited."""
        return next((step.name for step in self.steps if step.state == "pending"), None)


def read_sighting(document: dict[str, Any]) -> Sighting:
    """Values of a management answer."""
    return Sighting(
        id=document["id"],
        status=document["status"],
        output=document.get("output"),
        error=document.get("error"),
        steps=tuple(_step(step) for step in document["steps"]),
        contexts=tuple(_context(context) for context in document["contexts"]),
        queued_events=len(document["events"]),
    )


def _step(document: dict[str, Any]) -> StepSighting:
    return StepSighting(
        name=document["name"],
        kind=document["kind"],
        state=document["state"],
        attempts=document["attempts"],
        begun_ms=_ms(document["begunAt"]) or 0,
        settled_ms=_ms(document["settledAt"]),
        due_ms=_ms(document["dueAt"]),
        result=document.get("result"),
    )


def _context(document: dict[str, Any]) -> ContextSighting:
    stop = document["stop"] or {}
    return ContextSighting(
        order=document["order"],
        version_uid=document["versionUid"],
        started_ms=_ms(document["startedAt"]) or 0,
        pid=document["pid"],
        stop_kind=stop.get("kind"),
        exit_status=stop.get("exitStatus"),
        stopped_ms=_ms(stop.get("at")),
        ending=document["ending"],
    )


def _ms(text: str | None) -> int | None:
    return None if text is None else round(datetime.fromisoformat(text).timestamp() * 1000)
