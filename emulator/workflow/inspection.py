"""What happened to an instance, as plain values for people and for the management API. Reads only."""

from dataclasses import dataclass

from emulator.d1 import Result, Statement, named
from emulator.runstore.address import RunAddress
from emulator.runstore.schema import AT_ADDRESS, STATUS
from emulator.runstore.snapshot import RunStatus, Snapshot, decode
from emulator.runstore.statements import at
from emulator.workflow.states import shown
from emulator.workflow.surroundings import Surroundings
from host.model.time import timestamp
from host.sqlite import Value
from host.sqlite.transaction import Row


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
    """Everything that is recorded of an instance; texts are canonical documents or failure messages."""

    instance: InstanceView
    params: str | None
    output: str | None
    reason: str | None
    message: str | None
    contexts: tuple[ContextView, ...]
    steps: tuple[StepView, ...]
    events: tuple[EventView, ...]


_INSTANCES = f"""
SELECT runs.rowid, runs.workflow_id, runs.run_id, {STATUS}, created_at, updated_at, d.due_at_ms
FROM runs LEFT JOIN workflow_due d ON d.workflow_id = runs.workflow_id AND d.run_id = runs.run_id
"""
_CONTEXTS = f"""
SELECT ord, version_uid, claimed_at_ms, pid, ending, stop_kind, exit_status, stopped_at
FROM workflow_contexts WHERE {AT_ADDRESS} ORDER BY ord
"""
_STEPS = f"""
SELECT name, kind, state, attempt, settings, begun_at_ms, attempt_begun_at_ms, due_at_ms, settled_at_ms, result
FROM workflow_steps WHERE {AT_ADDRESS} ORDER BY ord
"""
_ATTEMPTS = f"""
SELECT name, number, begun_at_ms, failed_at_ms, message FROM workflow_attempts WHERE {AT_ADDRESS} ORDER BY name, number
"""
_EVENTS = f"""
SELECT accepted_ord, type, accepted_at_ms, size_bytes FROM workflow_events WHERE {AT_ADDRESS} ORDER BY accepted_ord
"""


class Inspection:
    """Reads histories as they are committed."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._around = surroundings

    async def knows(self, workflow_uid: str) -> bool:
        """Whether there is an instance space of that uid; a deleted one is unknown."""
        known = "SELECT 1 FROM workflow_gates WHERE workflow_id = ? AND state <> 'purged'"
        [found] = await self._around.database.query([Statement(known, (workflow_uid,))])
        return bool(found.rows)

    async def instances(
        self, workflow_uid: str | None = None, after: int = 0, most: int = -1
    ) -> tuple[InstanceView, ...]:
        """In order of creation those of one Workflow, or all; the page of `most` behind the place `after`."""
        of_workflow = "TRUE" if workflow_uid is None else "runs.workflow_id = :workflow_id"
        sql = f"{_INSTANCES} WHERE {of_workflow} AND runs.rowid > :after ORDER BY runs.rowid LIMIT :most"
        values: dict[str, Value] = {"workflow_id": workflow_uid, "after": after, "most": most}
        [found] = await self._around.database.query([named(sql, values)])
        return tuple(_instance(row) for row in found.rows)

    async def history(self, workflow_uid: str, instance_id: str) -> InstanceHistory | None:
        """The history of one instance, or none when there is no such instance."""
        values = at(RunAddress(workflow_uid, instance_id))
        one = f"{_INSTANCES} WHERE runs.workflow_id = :workflow_id AND runs.run_id = :run_id"
        texts = (one, f"SELECT snapshot FROM runs WHERE {AT_ADDRESS}", _CONTEXTS, _STEPS, _ATTEMPTS, _EVENTS)
        instance, snapshot, contexts, steps, attempts, events = await self._around.database.query(
            [named(text, values) for text in texts]
        )
        if not instance.rows:
            return None
        failed = _failed_attempts(attempts)
        return _history(
            _instance(instance.rows[0]),
            decode(str(snapshot.rows[0][0])),
            tuple(_context(row) for row in contexts.rows),
            tuple(_step(row, failed.get(str(row[0]), ())) for row in steps.rows),
            tuple(_event(row) for row in events.rows),
        )


def _history(
    instance: InstanceView,
    snapshot: Snapshot,
    contexts: tuple[ContextView, ...],
    steps: tuple[StepView, ...],
    events: tuple[EventView, ...],
) -> InstanceHistory:
    return InstanceHistory(
        instance=instance,
        params=snapshot.params,
        output=snapshot.output if snapshot.status is RunStatus.COMPLETE else None,
        reason=snapshot.error.reason if snapshot.error else None,
        message=snapshot.error.message if snapshot.error else None,
        contexts=contexts,
        steps=steps,
        events=events,
    )


def _text(value: Value) -> str | None:
    return None if value is None else str(value)


def _number(value: Value) -> int | None:
    assert value is None or isinstance(value, int)
    return value


def _count(value: Value) -> int:
    assert isinstance(value, int)
    return value


def _instant(value: Value) -> str | None:
    at_ms = _number(value)
    return None if at_ms is None else timestamp(at_ms)


def _instance(row: Row) -> InstanceView:
    order, workflow_id, run_id, status, created_at, updated_at, due_at_ms = row
    return InstanceView(
        ord=_count(order),
        workflow_uid=str(workflow_id),
        instance_id=str(run_id),
        status="unreadable" if status is None else shown(RunStatus(str(status))),
        created_at=str(created_at),
        updated_at=str(updated_at),
        due_at=_instant(due_at_ms),
    )


def _context(row: Row) -> ContextView:
    order, version_uid, claimed_at_ms, pid, ending, stop_kind, exit_status, stopped_at = row
    stop = None if stop_kind is None else StopView(str(stop_kind), _number(exit_status), str(stopped_at))
    return ContextView(
        ord=_count(order),
        version_uid=str(version_uid),
        started_at=timestamp(_count(claimed_at_ms)),
        pid=_number(pid),
        ending=_text(ending),
        stop=stop,
    )


def _failed_attempts(found: Result) -> dict[str, tuple[AttemptView, ...]]:
    """Attempts that another one followed, by step name."""
    by_name: dict[str, tuple[AttemptView, ...]] = {}
    for name, number, begun_at_ms, failed_at_ms, message in found.rows:
        attempt = AttemptView(_count(number), "failed", _instant(begun_at_ms), _instant(failed_at_ms), _text(message))
        by_name[str(name)] = (*by_name.get(str(name), ()), attempt)
    return by_name


def _latest_attempt(row: Row) -> AttemptView | None:
    """The attempt that the step's own row tells of; none while it is only planned."""
    _, kind, state, number, _, begun_at_ms, attempt_begun_at_ms, _, settled_at_ms, result = row
    if kind != "do" or (state == "pending" and attempt_begun_at_ms is None):
        return None
    return AttemptView(
        number=_count(number),
        outcome=None if state == "pending" else str(state),
        begun_at=_instant(attempt_begun_at_ms if attempt_begun_at_ms is not None else begun_at_ms),
        settled_at=_instant(settled_at_ms),
        message=_text(result) if state == "failed" else None,
    )


def _step(row: Row, failed: tuple[AttemptView, ...]) -> StepView:
    name, kind, state, _, settings, begun_at_ms, _, due_at_ms, settled_at_ms, result = row
    latest = _latest_attempt(row)
    return StepView(
        name=str(name),
        kind=str(kind),
        state=str(state),
        attempts=failed if latest is None else (*failed, latest),
        settings=_text(settings),
        begun_at=timestamp(_count(begun_at_ms)),
        due_at=_instant(due_at_ms),
        settled_at=_instant(settled_at_ms),
        text=_text(result),
    )


def _event(row: Row) -> EventView:
    order, event_type, accepted_at_ms, size_bytes = row
    return EventView(_count(order), str(event_type), timestamp(_count(accepted_at_ms)), _count(size_bytes))
