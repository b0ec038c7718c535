"""Statements on the steps of an instance. Every write carries the fence of the run's owner, save where it says so."""

from emulator.d1 import Statement, named
from emulator.runstore.address import RunAddress
from emulator.runstore.schema import AT_ADDRESS, IS_OWNED
from emulator.runstore.statements import at
from emulator.workflow.history import Step, StepKind, StepState
from host.sqlite import Value
from host.sqlite.transaction import Row

SENT_RESULTS_BYTES = 4 * 1024 * 1024

_MATCHING_EVENT = """
    FROM workflow_events e WHERE e.workflow_id = workflow_steps.workflow_id AND e.run_id = workflow_steps.run_id
        AND e.type = workflow_steps.settings AND e.accepted_at_ms <= workflow_steps.due_at_ms
    ORDER BY e.accepted_ord LIMIT 1
"""

_IN_PROGRESS = f"""
    {AT_ADDRESS} AND name = :name AND kind = 'do' AND state = 'pending' AND attempt = :attempt AND {IS_OWNED}
"""


def _fenced(address: RunAddress, owner: str, **values: Value) -> dict[str, Value]:
    return {**at(address), "owner": owner, **values}


def insert_pending(address: RunAddress, owner: str, step: Step, now_ms: int) -> Statement:
    """Record a new name (DW-33, DW-35, DW-36: its settings and deadline stand from now on)."""
    return named(
        f"""
        INSERT INTO workflow_steps
            (workflow_id, run_id, name, ord, kind, settings, attempt, state, due_at_ms, begun_at_ms,
            attempt_begun_at_ms)
        SELECT :workflow_id, :run_id, :name, :ord, :kind, :settings, :attempt, 'pending', :due, :now,
            CASE :kind WHEN 'do' THEN :now END
        WHERE {IS_OWNED}
        """,
        _fenced(
            address,
            owner,
            name=step.name,
            ord=step.ord,
            kind=step.kind.value,
            settings=step.settings,
            attempt=step.attempt,
            due=step.due_at_ms,
            now=now_ms,
        ),
    )


def settle_effect(
    address: RunAddress, owner: str, step: Step, state: StepState, result: str | None, now_ms: int
) -> Statement:
    """Commit the outcome of an attempt that is the step's last (DW-34)."""
    return named(
        f"""
        UPDATE workflow_steps SET state = :state, result = :result, settled_at_ms = :now
        WHERE {_IN_PROGRESS}
        """,
        _fenced(address, owner, name=step.name, attempt=step.attempt, state=state.value, result=result, now=now_ms),
    )


def begin_attempt(address: RunAddress, owner: str, step: Step, now_ms: int) -> Statement:
    """The attempt of a known step begins, or begins again after its context was lost."""
    return named(
        f"UPDATE workflow_steps SET attempt_begun_at_ms = :now WHERE {_IN_PROGRESS}",
        _fenced(address, owner, name=step.name, attempt=step.attempt, now=now_ms),
    )


def plan_retry(
    address: RunAddress, owner: str, step: Step, message: str, now_ms: int, due_at_ms: int
) -> list[Statement]:
    """Commit the failure of an attempt and when the next one is due."""
    values = _fenced(address, owner, name=step.name, attempt=step.attempt, message=message, now=now_ms, due=due_at_ms)
    return [
        named(
            f"""
            INSERT INTO workflow_attempts (workflow_id, run_id, name, number, begun_at_ms, failed_at_ms, message)
            SELECT workflow_id, run_id, name, attempt, attempt_begun_at_ms, :now, :message
            FROM workflow_steps WHERE {_IN_PROGRESS}
            """,
            values,
        ),
        named(
            f"""
            UPDATE workflow_steps SET attempt = attempt + 1, attempt_begun_at_ms = NULL, due_at_ms = :due
            WHERE {_IN_PROGRESS}
            """,
            values,
        ),
    ]


def settle_due(address: RunAddress, owner: str, now_ms: int) -> list[Statement]:
    """Resolve the pending step: a wait by its oldest event in time, a due sleep, wait or retry by the clock.

    The event goes in the same batch (DW-36); a due sleep succeeds, a due wait has timed out, a due retry may begin.
    """
    values = _fenced(address, owner, now=now_ms)
    pending = f"{AT_ADDRESS} AND state = 'pending' AND {IS_OWNED}"
    return [
        named(
            f"""
            UPDATE workflow_steps SET state = 'succeeded', settled_at_ms = :now,
                (event_ord, result) = (SELECT e.accepted_ord, e.payload {_MATCHING_EVENT})
            WHERE {pending} AND kind = 'wait' AND EXISTS (SELECT 1 {_MATCHING_EVENT})
            """,
            values,
        ),
        named(
            f"""
            DELETE FROM workflow_events WHERE {AT_ADDRESS} AND {IS_OWNED} AND accepted_ord IN
                (SELECT event_ord FROM workflow_steps WHERE {AT_ADDRESS} AND event_ord IS NOT NULL)
            """,
            values,
        ),
        named(
            f"""
            UPDATE workflow_steps SET
                state = CASE kind WHEN 'sleep' THEN 'succeeded' WHEN 'wait' THEN 'timeout' ELSE state END,
                settled_at_ms = CASE kind WHEN 'do' THEN NULL ELSE :now END,
                due_at_ms = CASE kind WHEN 'do' THEN NULL ELSE due_at_ms END
            WHERE {pending} AND due_at_ms <= :now
            """,
            values,
        ),
    ]


def select_outcome(address: RunAddress, name: str) -> Statement:
    """State and result of one step, in at most one row."""
    return named(
        f"SELECT state, result FROM workflow_steps WHERE {AT_ADDRESS} AND name = :name", {**at(address), "name": name}
    )


def select_history(address: RunAddress) -> Statement:
    """All steps in order, for `known_step`; results beyond 4 MiB in all are left out and marked large.

    Which ones those are is found by sizes alone: a result that is left out is not even read.
    """
    return named(
        f"""
        SELECT s.name, s.ord, s.kind, s.state, s.attempt, s.settings, s.due_at_ms,
            CASE WHEN z.is_large THEN NULL ELSE s.result END, z.is_large
        FROM (
            SELECT id, ord, is_result AND SUM(size) OVER (ORDER BY ord) > {SENT_RESULTS_BYTES} AS is_large
            FROM (SELECT rowid AS id, ord, octet_length(result) AS size,
                    state = 'succeeded' AND octet_length(result) IS NOT NULL AS is_result
                FROM workflow_steps WHERE {AT_ADDRESS})
        ) z CROSS JOIN workflow_steps s ON s.rowid = z.id
        ORDER BY z.ord
        """,
        at(address),
    )


def known_step(row: Row) -> tuple[Step, str | None]:
    """A row of `select_history`: the step, and its result document or failure message."""
    name, order, kind, state, attempt, settings, due_at_ms, result, is_large = row
    assert isinstance(order, int) and isinstance(attempt, int)
    assert due_at_ms is None or isinstance(due_at_ms, int)
    step = Step(
        name=str(name),
        ord=order,
        kind=StepKind(str(kind)),
        state=StepState(str(state)),
        attempt=attempt,
        settings=None if settings is None else str(settings),
        due_at_ms=due_at_ms,
        is_large=bool(is_large),
    )
    return step, None if result is None else str(result)
