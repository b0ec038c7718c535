"""The `runs` table and how SQL reads a stored snapshot. The expressions are exactly those that the indexes hold.

`CASE WHEN json_valid(...)` keeps rows that SQLite cannot parse storable: a bare extraction in an index refuses them
(RS-62).
"""

STATUS = "(CASE WHEN json_valid(snapshot) THEN snapshot ->> '$.status' END)"
OWNER = "(CASE WHEN json_valid(snapshot) THEN snapshot ->> '$.lifecycle.owner' END)"
REVISION = "(snapshot ->> '$.lifecycle.revision')"
INTENT = "(snapshot ->> '$.lifecycle.transitionIntent.to')"
AT_ADDRESS = "workflow_id = :workflow_id AND run_id = :run_id"
IS_OWNED = f"EXISTS (SELECT 1 FROM runs WHERE {AT_ADDRESS} AND {OWNER} = :owner)"
CREATED_MS = "(CAST(strftime('%s', created_at) AS INTEGER) * 1000 + CAST(substr(created_at, 21, 3) AS INTEGER))"

SCHEMA = f"""
CREATE TABLE runs (
    workflow_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    resource_id TEXT,
    snapshot TEXT NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    PRIMARY KEY (workflow_id, run_id)
) STRICT;
CREATE INDEX runs_by_status ON runs ({STATUS}, workflow_id);
CREATE INDEX runs_by_owner ON runs (workflow_id, run_id, {OWNER});
"""
