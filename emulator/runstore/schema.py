"""The tables of the run store and how SQL reads a stored snapshot. The expressions are those that the indexes hold.

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
UPDATED_MS = CREATED_MS.replace("created_at", "updated_at")


def runs_schema(prefix: str = "") -> str:
    """The table of runs and its indexes."""
    return f"""
CREATE TABLE {prefix}runs (
    workflow_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    resource_id TEXT,
    snapshot TEXT NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    PRIMARY KEY (workflow_id, run_id)
) STRICT;
CREATE INDEX {prefix}runs_by_status ON {prefix}runs ({STATUS}, workflow_id);
CREATE INDEX {prefix}runs_by_owner ON {prefix}runs (workflow_id, run_id, {OWNER});
"""


def reservations_schema(prefix: str = "") -> str:
    """The table of start reservations; each is written in the batch that admits its run (RS-11)."""
    return f"""
CREATE TABLE {prefix}run_reservations (
    reservation_key TEXT PRIMARY KEY,
    token TEXT NOT NULL,
    workflow_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    reserved_at TEXT NOT NULL
) STRICT;
"""


SCHEMA = runs_schema()


def migrations(prefix: str = "") -> tuple[str, ...]:
    """For a database that holds nothing but the run store."""
    return (runs_schema(prefix) + reservations_schema(prefix),)
