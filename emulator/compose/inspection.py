"""Shows the workflow engine to the management listener: what it waits for, and histories as JSON."""

import json
import re

from emulator.compose.withdrawals import Withdrawals
from emulator.management.parts import Inspection, Workload
from emulator.workflow import Engine, InstanceHistory, InstanceView
from emulator.workflow.inspection import AttemptView, ContextView, EventView, StepView
from host.model.json import JsonObject, JsonValue

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

    async def show_instance(self, workflow_uid: str, instance_id: str) -> JsonObject | None:
        history = await self._engine.inspection.history(workflow_uid, instance_id)
        return None if history is None else _history(history)


def _instance(view: InstanceView) -> JsonObject:
    return {
        "id": view.instance_id,
        "workflowUid": view.workflow_uid,
        "status": view.status,
        "createdAt": view.created_at,
        "updatedAt": view.updated_at,
        "dueAt": view.due_at,
    }


def _history(history: InstanceHistory) -> JsonObject:
    """Everything recorded of an instance; the README documents the members."""
    shown = _instance(history.instance)
    shown["params"] = _document(history.params)
    shown["output"] = _document(history.output)
    shown["error"] = None if history.reason is None else {"reason": history.reason, "message": history.message}
    shown["contexts"] = [_context(view) for view in history.contexts]
    shown["steps"] = [_step(view) for view in history.steps]
    shown["events"] = [_event(view) for view in history.events]
    return shown


def _context(view: ContextView) -> JsonObject:
    stop: JsonValue = None
    if view.stop is not None:
        stop = {"kind": view.stop.kind, "exitStatus": view.stop.exit_status, "at": view.stop.at}
    return {
        "order": view.ord,
        "versionUid": view.version_uid,
        "startedAt": view.started_at,
        "pid": view.pid,
        "ending": view.ending,
        "stop": stop,
    }


def _step(view: StepView) -> JsonObject:
    """`result` of a success is a document; `message` is what a failed or retried attempt said."""
    succeeded = view.state == "succeeded"
    return {
        "name": view.name,
        "kind": view.kind,
        "state": view.state,
        "attempts": len(view.attempts),
        "attemptRecords": [_attempt(attempt) for attempt in view.attempts],
        "begunAt": view.begun_at,
        "dueAt": view.due_at,
        "settledAt": view.settled_at,
        "result": _document(view.text) if succeeded else None,
        "message": None if succeeded else _message(view),
    }


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


def _event(view: EventView) -> JsonObject:
    return {"order": view.ord, "type": view.type, "acceptedAt": view.accepted_at, "byteSize": view.size_bytes}


def _document(text: str | None) -> JsonValue:
    """The document; one nested deeper than JSON readers may follow is shown as its text."""
    if text is None:
        return None
    if _is_deep(text):
        return text
    value: JsonValue = json.loads(text)
    return value


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
