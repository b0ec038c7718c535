"""The tables of the run store and how SQL reads a stored snapshot.

`CASE WHEN json_valid(...)` keeps rows that SQLite cannot parse storable: a bare extraction refuses them (RS-62).
"""

from emulator.runstore.readings import is_settled

STATUS = "status"
OWNER = "owner"
SETTLED = "settled"
"""Columns that SQLite derives from the snapshot at each write; null where it cannot parse the snapshot."""
REVISION = "(snapshot ->> '$.lifecycle.revision')"
INTENT = "(snapshot ->> '$.lifecycle.transitionIntent.to')"
AT_ADDRESS = "workflow_id = :workflow_id AND run_id = :run_id"
IS_OWNED = f"EXISTS (SELECT 1 FROM runs WHERE {AT_ADDRESS} AND {OWNER} = :owner)"
CREATED_MS = "(CAST(strftime('%s', created_at) AS INTEGER) * 1000 + CAST(substr(created_at, 21, 3) AS INTEGER))"
UPDATED_MS = CREATED_MS.replace("created_at", "updated_at")

_DERIVED_STATUS = "(CASE WHEN json_valid(snapshot) THEN snapshot ->> '$.status' END)"
_DERIVED_OWNER = "(CASE WHEN json_valid(snapshot) THEN snapshot ->> '$.lifecycle.owner' END)"
_IS_PARSED = f"{STATUS} IS NOT NULL OR json_valid(snapshot)"  # a status is proof, and spares parsing again


def first_runs_schema(prefix: str = "") -> str:
    """The table of runs as it was first made, for files of that time; `derive_columns` brings it to what it is."""
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
CREATE INDEX {prefix}runs_by_status ON {prefix}runs ({_DERIVED_STATUS}, workflow_id);
CREATE INDEX {prefix}runs_by_owner ON {prefix}runs (workflow_id, run_id, {_DERIVED_OWNER});
"""


def derive_columns(prefix: str = "") -> str:
    """Give the table stored columns for what its indexes hold, and for what a touch asks.

    An index on an expression parses the old and the new snapshot at every write, each index anew: three quarters of
    what a write cost. The columns stand before the snapshot, so that reading them walks no large text.
    """
    columns = "workflow_id, run_id, resource_id, snapshot, created_at, updated_at"
    return f"""
CREATE TABLE {prefix}runs_derived (
    workflow_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    resource_id TEXT,
    {STATUS} TEXT GENERATED ALWAYS AS {_DERIVED_STATUS} STORED,
    {OWNER} TEXT GENERATED ALWAYS AS
        (CASE WHEN {_IS_PARSED} THEN snapshot ->> '$.lifecycle.owner' END) STORED,
    {SETTLED} INTEGER GENERATED ALWAYS AS (CASE WHEN {_IS_PARSED} THEN {is_settled("snapshot")} END) STORED,
    snapshot TEXT NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    PRIMARY KEY (workflow_id, run_id)
) STRICT;
INSERT INTO {prefix}runs_derived (rowid, {columns}) SELECT rowid, {columns} FROM {prefix}runs ORDER BY rowid;
DROP TABLE {prefix}runs;
ALTER TABLE {prefix}runs_derived RENAME TO {prefix}runs;
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


def migrations(prefix: str = "") -> tuple[str, ...]:
    """For a database that holds nothing but the run store."""
    return (first_runs_schema(prefix) + reservations_schema(prefix), derive_columns(prefix))
