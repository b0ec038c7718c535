"""Contexts and steps of an instance in pages: bounded by their size, however long a history has become. Reads only."""

from emulator.d1 import Result, Statement, named
from emulator.runstore.address import RunAddress
from emulator.runstore.schema import AT_ADDRESS
from emulator.runstore.statements import at
from emulator.workflow.views import AttemptView, ContextView, Page, StepView, StopView
from host.model.time import timestamp
from host.sqlite import Value
from host.sqlite.transaction import Row

PAGE_BYTES = 1024 * 1024
_PAGE_CONTEXTS = 256
_ATTEMPT_BYTES = 512

_CONTEXTS = f"""
SELECT ord, version_uid, claimed_at_ms, pid, ending, stop_kind, exit_status, stopped_at
FROM workflow_contexts WHERE {AT_ADDRESS} AND ord > :after ORDER BY ord LIMIT {_PAGE_CONTEXTS}
"""
_SIZED = f"""
    SELECT rowid AS id, ord, COALESCE(octet_length(result), 0) + {_ATTEMPT_BYTES} * attempt AS size
    FROM workflow_steps WHERE {AT_ADDRESS} AND ord > :after
"""
_PAGE = f"""
    SELECT id, ord, last FROM (
        SELECT id, ord, SUM(size) OVER (ORDER BY ord) AS sum, MIN(ord) OVER () AS first, MAX(ord) OVER () AS last
        FROM ({_SIZED}))
    WHERE ord = first OR sum <= {PAGE_BYTES}
"""
"""A result of a step beyond the page is not even read: its size is told by the head of its row."""
_STEPS = f"""
SELECT s.name, s.kind, s.state, s.attempt, s.settings, s.begun_at_ms, s.attempt_begun_at_ms, s.due_at_ms,
    s.settled_at_ms, s.result, z.ord, z.last
FROM ({_PAGE}) z CROSS JOIN workflow_steps s ON s.rowid = z.id ORDER BY z.ord
"""
_ATTEMPTS = f"""
SELECT name, number, begun_at_ms, failed_at_ms, message FROM workflow_attempts
WHERE {AT_ADDRESS} AND name IN (SELECT s.name FROM ({_PAGE}) z CROSS JOIN workflow_steps s ON s.rowid = z.id)
ORDER BY name, number
"""


def select_contexts(address: RunAddress, after: int) -> Statement:
    """A page of contexts behind the place `after`, for `contexts_page`."""
    return named(_CONTEXTS, {**at(address), "after": after})


def select_steps(address: RunAddress, after: int) -> list[Statement]:
    """A page of steps behind the place `after`, for `steps_page`: the steps and their attempts, on one snapshot."""
    values: dict[str, Value] = {**at(address), "after": after}
    return [named(_STEPS, values), named(_ATTEMPTS, values)]


def contexts_page(found: Result) -> Page[ContextView]:
    views = tuple(_context(row) for row in found.rows)
    return Page(views, views[-1].ord if len(views) == _PAGE_CONTEXTS else None)


def steps_page(steps: Result, attempts: Result) -> Page[StepView]:
    if not steps.rows:
        return Page(())
    failed = _failed_attempts(attempts)
    views = tuple(_step(row[:-2], failed.get(str(row[0]), ())) for row in steps.rows)
    *_, order, last = steps.rows[-1]
    return Page(views, None if order == last else count_of(order))


def text_of(value: Value) -> str | None:
    return None if value is None else str(value)


def number_of(value: Value) -> int | None:
    assert value is None or isinstance(value, int)
    return value


def count_of(value: Value) -> int:
    assert isinstance(value, int)
    return value


def instant_of(value: Value) -> str | None:
    at_ms = number_of(value)
    return None if at_ms is None else timestamp(at_ms)


def _context(row: Row) -> ContextView:
    order, version_uid, claimed_at_ms, pid, ending, stop_kind, exit_status, stopped_at = row
    stop = None if stop_kind is None else StopView(str(stop_kind), number_of(exit_status), str(stopped_at))
    return ContextView(
        ord=count_of(order),
        version_uid=str(version_uid),
        started_at=timestamp(count_of(claimed_at_ms)),
        pid=number_of(pid),
        ending=text_of(ending),
        stop=stop,
    )


def _failed_attempts(found: Result) -> dict[str, tuple[AttemptView, ...]]:
    """Attempts that another one followed, by step name."""
    by_name: dict[str, tuple[AttemptView, ...]] = {}
    for name, number, begun_at_ms, failed_at_ms, message in found.rows:
        attempt = AttemptView(
            count_of(number), "failed", instant_of(begun_at_ms), instant_of(failed_at_ms), text_of(message)
        )
        by_name[str(name)] = (*by_name.get(str(name), ()), attempt)
    return by_name


def _latest_attempt(row: Row) -> AttemptView | None:
    """The attempt that the step's own row tells of; none while it is only planned."""
    _, kind, state, number, _, begun_at_ms, attempt_begun_at_ms, _, settled_at_ms, result = row
    if kind != "do" or (state == "pending" and attempt_begun_at_ms is None):
        return None
    return AttemptView(
        number=count_of(number),
        outcome=None if state == "pending" else str(state),
        begun_at=instant_of(attempt_begun_at_ms if attempt_begun_at_ms is not None else begun_at_ms),
        settled_at=instant_of(settled_at_ms),
        message=text_of(result) if state == "failed" else None,
    )


def _step(row: Row, failed: tuple[AttemptView, ...]) -> StepView:
    name, kind, state, _, settings, begun_at_ms, _, due_at_ms, settled_at_ms, result = row
    latest = _latest_attempt(row)
    return StepView(
        name=str(name),
        kind=str(kind),
        state=str(state),
        attempts=failed if latest is None else (*failed, latest),
        settings=text_of(settings),
        begun_at=timestamp(count_of(begun_at_ms)),
        due_at=instant_of(due_at_ms),
        settled_at=instant_of(settled_at_ms),
        text=text_of(result),
    )
