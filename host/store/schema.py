"""The schema of the control database (`control.sqlite`), as migrations."""

from collections.abc import Sequence

APPLICATION_ID = 0x746B6331
"""`tkc1` in the file header: the control database of takohost."""

_FIRST = """
CREATE TABLE resources (
    uid TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    form_url TEXT NOT NULL,
    space TEXT NOT NULL,
    name TEXT NOT NULL,
    generation INTEGER NOT NULL,
    observed_generation INTEGER NOT NULL,
    observed_at_ms INTEGER,
    phase TEXT NOT NULL,
    spec TEXT NOT NULL,
    observed TEXT NOT NULL,
    output TEXT NOT NULL,
    facts TEXT NOT NULL,
    last_operation TEXT NOT NULL,
    UNIQUE (owner, space, name)
) STRICT;

CREATE INDEX resources_of_owner ON resources (owner, uid);

CREATE TABLE resource_references (
    source_uid TEXT NOT NULL REFERENCES resources (uid),
    target_uid TEXT NOT NULL REFERENCES resources (uid),
    role TEXT NOT NULL,
    PRIMARY KEY (source_uid, target_uid, role)
) STRICT, WITHOUT ROWID;

CREATE INDEX references_to ON resource_references (target_uid, source_uid);

CREATE TABLE deleted_resources (
    uid TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    deleted_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE operations (
    ord INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    owner TEXT NOT NULL,
    resource_uid TEXT NOT NULL,
    action TEXT NOT NULL,
    generation INTEGER NOT NULL,
    status TEXT NOT NULL,
    effect TEXT NOT NULL,
    failure_code TEXT,
    failure_message TEXT,
    created_at_ms INTEGER NOT NULL,
    updated_at_ms INTEGER NOT NULL,
    retain_until_ms INTEGER NOT NULL,
    epoch INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX one_unfinished_operation ON operations (resource_uid)
    WHERE status NOT IN ('succeeded', 'failed');

CREATE TABLE idempotency_keys (
    owner TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    operation_id TEXT NOT NULL REFERENCES operations (id),
    PRIMARY KEY (owner, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE host_secrets (
    name TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;
"""

MIGRATIONS: Sequence[str] = (_FIRST,)
