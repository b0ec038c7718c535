"""Shows the workflow engine to the management listener: what it waits for, and histories as JSON."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TypeVar

from emulator.compose.withdrawals import Withdrawals
from emulator.management.parts import Inspection, Workload
from emulator.workflow import Engine, InstanceHistory, InstanceView
from emulator.workflow.views import AttemptView, ContextView, EventView, StepView
from host.model.json import JsonObject, JsonValue

View = TypeVar("View")

_DEEPEST_SHOWN = 200
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]')


class EngineWorkload(Workload):
    """What contract time is waiting for, in the management listener's words."""

    def __init__(self, engine: Engine, withdrawals: Withdrawals) -> None:
        self._engine = engine
        self._withdrawals = withdrawals

    async def next_due_ms(self) -> int | None:
        return await self._engine.next_due_ms()

    async def idle(self) -> None:
        """A withdrawal requeues instances, so both have to be at rest."""
        await self._engine.idle()
        while await self._withdrawals.settled():
            await self._engine.idle()

    def executing(self) -> tuple[str, ...]:
        return tuple(f"instance {run!r} of Workflow {workflow}" for workflow, run in self._engine.executing())


class EngineInspection(Inspection):
    """Instances and histories as committed."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def list_instances(
        self, workflow_uid: str, after: int, most: int
    ) -> tuple[list[JsonObject], int | None] | None:
        if not await self._engine.inspection.knows(workflow_uid):
            return None
        views = await self._engine.inspection.instances(workflow_uid, after, most)
        return [_instance(view) for view in views], views[-1].ord if len(views) == most else None

    async def show_instance(self, workflow_uid: str, instance_id: str) -> AsyncIterator[str] | None:
        history = await self._engine.inspection.history(workflow_uid, instance_id)
        return None if history is None else self._told(workflow_uid, instance_id, history)

    async def _told(self, workflow_uid: str, instance_id: str, history: InstanceHistory) -> AsyncIterator[str]:
        """Written page by page, in a thread: no history is too long for the event loop or for memory."""
        inspection = self._engine.inspection
        yield await asyncio.to_thread(_head, history) + ',"contexts":['
        yield await asyncio.to_thread(_items, history.contexts, _context)
        after = history.more_contexts_after
        while after is not None:
            contexts = await inspection.contexts(workflow_uid, instance_id, after)
            yield await asyncio.to_thread(_further, contexts.items, _context)
            after = contexts.after
        yield '],"steps":['
        yield await asyncio.to_thread(_items, history.steps, _step)
        after = history.more_steps_after
        while after is not None:
            steps = await inspection.steps(workflow_uid, instance_id, after)
            yield await asyncio.to_thread(_further, steps.items, _step)
            after = steps.after
        yield f'],"events":[{_items(history.events, _event)}]}}'


def _instance(view: InstanceView) -> JsonObject:
    return {
        "id": view.instance_id,
        "workflowUid": view.workflow_uid,
        "status": view.status,
        "createdAt": view.created_at,
        "updatedAt": view.updated_at,
        "dueAt": view.due_at,
    }


def _head(history: InstanceHistory) -> str:
    """The members that are no lists, without the closing brace; the README documents all of them."""
    error: JsonValue = None if history.reason is None else {"reason": history.reason, "message": history.message}
    members = [
        *(f"{_json(name)}:{_json(value)}" for name, value in _instance(history.instance).items()),
        f'"params":{_document(history.params)}',
        f'"output":{_document(history.output)}',
        f'"error":{_json(error)}',
    ]
    return "{" + ",".join(members)


def _items(views: Sequence[View], told: Callable[[View], str]) -> str:
    return ",".join(map(told, views))


def _further(views: Sequence[View], told: Callable[[View], str]) -> str:
    """More items behind earlier ones."""
    return "".join("," + told(view) for view in views)


def _json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _context(view: ContextView) -> str:
    stop: JsonValue = None
    if view.stop is not None:
        stop = {"kind": view.stop.kind, "exitStatus": view.stop.exit_status, "at": view.stop.at}
    shown: JsonObject = {
        "order": view.ord,
        "versionUid": view.version_uid,
        "startedAt": view.started_at,
        "pid": view.pid,
        "ending": view.ending,
        "stop": stop,
    }
    return _json(shown)


def _step(view: StepView) -> str:
    """`result` of a success is a document; `message` is what a failed or retried attempt said."""
    succeeded = view.state == "succeeded"
    shown: JsonObject = {
        "name": view.name,
        "kind": view.kind,
        "state": view.state,
        "attempts": len(view.attempts),
        "attemptRecords": [_attempt(attempt) for attempt in view.attempts],
        "begunAt": view.begun_at,
        "dueAt": view.due_at,
        "settledAt": view.settled_at,
        "message": None if succeeded else _message(view),
    }
    return f'{_json(shown)[:-1]},"result":{_document(view.text if succeeded else None)}}}'


def _message(view: StepView) -> str | None:
    return view.text if view.text is not None else next((a.message for a in reversed(view.attempts)), None)


def _attempt(view: AttemptView) -> JsonObject:
    return {
        "number": view.number,
        "outcome": view.outcome,
        "begunAt": view.begun_at,
        "settledAt": view.settled_at,
        "message": view.message,
    }


def _event(view: EventView) -> str:
    return _json({"order": view.ord, "type": view.type, "acceptedAt": view.accepted_at, "byteSize": view.size_bytes})


def _document(text: str | None) -> str:
    """The document as it is recorded; one nested deeper than JSON readers may follow is shown as its text."""
    if text is None:
        return "null"
    return _json(text) if _is_deep(text) else text


def _is_deep(text: str) -> bool:
    if text.count("{") + text.count("[") <= _DEEPEST_SHOWN:
        return False
    depth = 0
    for token in _STRING_OR_BRACKET.finditer(text):
        match token[0]:
            case "{" | "[":
                depth += 1
            case "}" | "]":
                depth -= 1
        if depth > _DEEPEST_SHOWN:
            return True
    return False
