"""Tables of the workflow engine, and the schema of the emulator's database as a whole.

The run row holds what is compared and stays small; histories, events, contexts and the due index lie beside it.
"""

from emulator.catalog import schema as catalog
from emulator.runstore import schema as runs
from emulator.runstore.snapshot import TERMINAL, RunStatus

APPLICATION_ID = 0x74616B65  # "take"

SCHEMA = """
CREATE TABLE workflow_gates (
    workflow_id TEXT PRIMARY KEY,
    worker_uid TEXT NOT NULL,
    class_name TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('open', 'closing', 'purged')),
    epoch INTEGER NOT NULL
) STRICT;
CREATE TABLE workflow_steps (
    workflow_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    name TEXT NOT NULL,
    ord INTEGER NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('do', 'sleep', 'wait')),
    settings TEXT,
    attempt INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('pending', 'succeeded', 'failed', 'timeout')),
    due_at_ms INTEGER,
    begun_at_ms INTEGER NOT NULL,
    settled_at_ms INTEGER,
    event_ord INTEGER,
    result TEXT,
    PRIMARY KEY (workflow_id, run_id, name)
) STRICT;
CREATE INDEX workflow_steps_pending ON workflow_steps (workflow_id, run_id, due_at_ms) WHERE state = 'pending';
CREATE INDEX workflow_steps_event ON workflow_steps (workflow_id, run_id, event_ord) WHERE event_ord IS NOT NULL;
CREATE TABLE workflow_events (
    workflow_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    accepted_ord INTEGER NOT NULL,
    type TEXT NOT NULL,
    payload TEXT,
    size_bytes INTEGER NOT NULL,
    accepted_at_ms INTEGER NOT NULL,
    PRIMARY KEY (workflow_id, run_id, accepted_ord)
) STRICT;
CREATE TABLE workflow_contexts (
    context_id TEXT PRIMARY KEY,
    workflow_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    ord INTEGER NOT NULL,
    version_uid TEXT NOT NULL,
    claimed_at_ms INTEGER NOT NULL,
    pid INTEGER,
    process_started TEXT,
    stop_kind TEXT CHECK (stop_kind IN ('ack', 'exit', 'lost_host', 'unstarted')),
    exit_status INTEGER,
    stopped_at TEXT,
    ending TEXT,
    lost_at_point TEXT,
    UNIQUE (workflow_id, run_id, ord)
) STRICT;
CREATE INDEX workflow_contexts_unproven ON workflow_contexts (workflow_id, run_id) WHERE stop_kind IS NULL;
CREATE TABLE workflow_due (
    ord INTEGER PRIMARY KEY,
    workflow_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    due_at_ms INTEGER,
    expires_at_ms INTEGER NOT NULL,
    UNIQUE (workflow_id, run_id)
) STRICT;
CREATE INDEX workflow_due_order ON workflow_due (due_at_ms, ord) WHERE due_at_ms IS NOT NULL;
CREATE INDEX workflow_due_expiry ON workflow_due (expires_at_ms);
"""

ATTEMPTS = """
ALTER TABLE workflow_steps ADD COLUMN attempt_begun_at_ms INTEGER;
CREATE TABLE workflow_attempts (
    workflow_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    name TEXT NOT NULL,
    number INTEGER NOT NULL,
    begun_at_ms INTEGER,
    failed_at_ms INTEGER NOT NULL,
    message TEXT,
    PRIMARY KEY (workflow_id, run_id, name, number)
) STRICT;
"""
"""Attempts that failed and were followed by another; the latest attempt of a step is in the step's own row."""

_TERMINAL = ", ".join(f"'{each}'" for each in TERMINAL)
RETENTION = f"""
CREATE INDEX runs_ended ON runs (updated_at)
    WHERE (CASE WHEN json_valid(snapshot) THEN snapshot ->> '$.status' END) IN ({_TERMINAL});
"""
DERIVED_COLUMNS = f"""
{runs.derive_columns()}
CREATE INDEX runs_ended ON runs (updated_at) WHERE {runs.STATUS} IN ({_TERMINAL});
"""

QUEUE = f"""
ALTER TABLE workflow_due ADD COLUMN is_queued INTEGER NOT NULL DEFAULT 0;
UPDATE workflow_due SET is_queued = 1 WHERE EXISTS (
    SELECT 1 FROM runs WHERE runs.workflow_id = workflow_due.workflow_id AND runs.run_id = workflow_due.run_id
        AND {runs.STATUS} = '{RunStatus.PENDING}');
DROP INDEX workflow_due_order;
CREATE INDEX workflow_due_unmarked ON workflow_due (due_at_ms, ord, workflow_id)
    WHERE is_queued = 0 AND due_at_ms IS NOT NULL;
CREATE INDEX workflow_due_queue ON workflow_due (due_at_ms, ord, workflow_id) WHERE is_queued = 1;
"""
"""Due instances are marked before they start: what awaits the marker and what awaits a context are two indexes."""

MIGRATIONS = (
    runs.first_runs_schema() + catalog.SCHEMA + SCHEMA,
    catalog.SECRETS,
    ATTEMPTS + RETENTION + catalog.WITHDRAWALS,
    catalog.ENDPOINTS,
    DERIVED_COLUMNS,
    QUEUE,
    catalog.ASSETS,
    catalog.LOSSES,
    catalog.FILE_LOSSES,
)
