"""The due index: when each instance that has not ended is to be looked at next. Derived, never decided on its own.

One formula derives a row from the run and its steps; batches refresh a row by it, and start-up compares all of them.
Being a function of rows that stand in the same transaction, a refresh needs no fence. A row is marked, `is_queued`,
while its run is queued: what is due and unmarked awaits the marker, what is marked awaits a context.
"""

from dataclasses import dataclass

from emulator.d1 import Result, Statement, named
from emulator.runstore.address import RunAddress
from emulator.runstore.schema import CREATED_MS, STATUS
from emulator.runstore.snapshot import RunStatus
from emulator.runstore.statements import at
from emulator.workflow.guards import IS_LIVE, READY_WORKFLOWS
from host.sqlite.transaction import Row

LIFETIME_MS = 31_536_000_000

_OF_RUN = "s.workflow_id = runs.workflow_id AND s.run_id = runs.run_id"
_DERIVED = f"""
    SELECT workflow_id, run_id,
        CASE WHEN {STATUS} <> '{RunStatus.RUNNING}' THEN COALESCE(
            (SELECT MIN(s.due_at_ms) FROM workflow_steps s WHERE {_OF_RUN} AND s.state = 'pending'),
            (SELECT MAX(s.settled_at_ms) FROM workflow_steps s WHERE {_OF_RUN}),
            {CREATED_MS}) END AS due_at_ms,
        {CREATED_MS} + {LIFETIME_MS} AS expires_at_ms,
        {STATUS} = '{RunStatus.PENDING}' AS is_queued
    FROM runs WHERE {IS_LIVE}
"""
_INSERT = "INSERT INTO workflow_due (workflow_id, run_id, due_at_ms, expires_at_ms, is_queued)"
_TO_MARK = "workflow_due d INDEXED BY workflow_due_unmarked"
_IN_QUEUE = "workflow_due d INDEXED BY workflow_due_queue"
_BY_EXPIRY = "workflow_due d INDEXED BY workflow_due_expiry"
_READY = f"+d.workflow_id IN ({READY_WORKFLOWS})"
_OPEN = "+d.workflow_id IN (SELECT workflow_id FROM workflow_gates WHERE state = 'open')"
"""The plus keeps SQLite from going by Workflow, through all of its sleepers, instead of by time."""

_COLUMNS = "d.workflow_id, d.run_id, snapshot ->> '$.lifecycle.revision', g.worker_uid, g.class_name"
_BESIDE = """
    CROSS JOIN workflow_gates g ON g.workflow_id = d.workflow_id
    CROSS JOIN runs ON runs.workflow_id = d.workflow_id AND runs.run_id = d.run_id
"""


UNMARKED = f"""
    FROM {_TO_MARK} WHERE d.is_queued = 0 AND d.due_at_ms <= :now AND d.expires_at_ms > :now AND {_READY}
    ORDER BY d.due_at_ms, d.ord LIMIT :most
"""
"""The rows that the marker takes, both statements of a mark the same. Without a Deployment nothing wakes (WD-07)."""
MARK = f"""
UPDATE workflow_due SET is_queued = 1 WHERE ord IN (SELECT d.ord {UNMARKED}) AND EXISTS (
    SELECT 1 FROM runs WHERE runs.workflow_id = workflow_due.workflow_id AND runs.run_id = workflow_due.run_id
        AND {STATUS} = '{RunStatus.PENDING}')
"""


def refresh(address: RunAddress) -> list[Statement]:
    """Bring the row of one instance in line with the rest of the batch."""
    where = "workflow_id = :workflow_id AND run_id = :run_id"
    return [
        named(f"DELETE FROM workflow_due WHERE {where}", at(address)),
        named(f"{_INSERT} {_DERIVED} AND {where}", at(address)),
    ]


@dataclass(frozen=True, slots=True)
class DueInstance:
    """An instance to act on. `revision` is the one the row had when it was found due."""

    address: RunAddress
    revision: int
    worker_uid: str
    class_name: str


def select_startable(now_ms: int, most: int) -> Statement:
    """Queued instances that can start a context now, the longest due first."""
    return named(
        f"""
        SELECT {_COLUMNS} FROM {_IN_QUEUE} {_BESIDE}
        WHERE d.is_queued = 1 AND {_READY} AND d.expires_at_ms > :now
        ORDER BY d.due_at_ms, d.ord LIMIT :most
        """,
        {"now": now_ms, "most": most},
    )


def select_expired(now_ms: int, most: int) -> Statement:
    """Instances past their lifetime (DW-33), in the same columns as `select_startable`."""
    return named(
        f"""
        SELECT {_COLUMNS} FROM {_BY_EXPIRY} {_BESIDE}
        WHERE d.expires_at_ms <= :now AND {_OPEN} ORDER BY d.expires_at_ms, d.ord LIMIT :most
        """,
        {"now": now_ms, "most": most},
    )


def due_instance(row: Row) -> DueInstance:
    """A row of `select_startable` or `select_expired` as a value."""
    workflow_id, run_id, revision, worker_uid, class_name = row
    assert isinstance(revision, int)
    return DueInstance(RunAddress(str(workflow_id), str(run_id)), revision, str(worker_uid), str(class_name))


def select_unmarked() -> Statement:
    """The earliest instant of an unmarked row that may wake, in one row; null for none."""
    return Statement(
        f"""
        SELECT (SELECT d.due_at_ms FROM {_TO_MARK}
            WHERE d.is_queued = 0 AND d.due_at_ms IS NOT NULL AND {_READY} ORDER BY d.due_at_ms LIMIT 1)
        """
    )


def instant_of(found: Result) -> int | None:
    """What `select_unmarked` and `select_next_expiry` give."""
    [(at_ms,)] = found.rows
    assert at_ms is None or isinstance(at_ms, int)
    return at_ms


def select_next_expiry(after_ms: int) -> Statement:
    """The earliest instant after `after_ms` at which something expires, in one row; null for never."""
    return named(
        f"""
        SELECT (SELECT d.expires_at_ms FROM {_BY_EXPIRY}
            WHERE d.expires_at_ms > :after AND {_OPEN} ORDER BY d.expires_at_ms LIMIT 1)
        """,
        {"after": after_ms},
    )


def select_differences() -> Statement:
    """Rows in which the stored index and the derived one differ: address, stored due, derived due; marks count."""
    return Statement(
        f"""
        SELECT x.workflow_id, x.run_id, d.due_at_ms, x.due_at_ms
        FROM ({_DERIVED}) x LEFT JOIN workflow_due d ON d.workflow_id = x.workflow_id AND d.run_id = x.run_id
        WHERE d.run_id IS NULL OR d.due_at_ms IS NOT x.due_at_ms OR d.expires_at_ms <> x.expires_at_ms
            OR d.is_queued <> x.is_queued
        UNION ALL
        SELECT workflow_id, run_id, due_at_ms, NULL FROM workflow_due d
        WHERE NOT EXISTS (
            SELECT 1 FROM runs WHERE runs.workflow_id = d.workflow_id AND runs.run_id = d.run_id AND {IS_LIVE})
        """
    )


def rebuild() -> list[Statement]:
    """Make the whole index what is derived, in order of creation where it says nothing else."""
    return [
        Statement("DELETE FROM workflow_due"),
        Statement(f"{_INSERT} {_DERIVED} ORDER BY due_at_ms, created_at"),
    ]
