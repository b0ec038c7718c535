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

_SECOND = """
ALTER TABLE operations ADD COLUMN space TEXT NOT NULL DEFAULT '';
ALTER TABLE operations ADD COLUMN input_names TEXT;
ALTER TABLE operations ADD COLUMN input_reason TEXT;
UPDATE operations SET space = coalesce((SELECT r.space FROM resources r WHERE r.uid = resource_uid), '');

ALTER TABLE deleted_resources ADD COLUMN space TEXT NOT NULL DEFAULT '';

-- Each way to filter a list has its own order to walk in, so that a page costs the same however many there are.
CREATE INDEX resources_by_space ON resources (owner, space, uid);
CREATE INDEX resources_by_form ON resources (owner, form_url, uid);
CREATE INDEX resources_by_name ON resources (owner, name, uid);
CREATE INDEX resources_by_space_and_form ON resources (owner, space, form_url, uid);

CREATE INDEX operations_by_retention ON operations (retain_until_ms) WHERE status IN ('succeeded', 'failed');
CREATE INDEX operations_of_resource ON operations (resource_uid);
CREATE INDEX keys_of_operation ON idempotency_keys (operation_id);
CREATE INDEX deleted_by_time ON deleted_resources (deleted_at_ms);

-- What tells equal private inputs from different ones, of an Operation or of a Resource; never the values.
CREATE TABLE private_comparisons (
    subject TEXT PRIMARY KEY,
    code BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- The values themselves, sealed, until the Operation has handed them on or they expire: then `sealed` is NULL.
CREATE TABLE private_values (
    operation_id TEXT PRIMARY KEY,
    sealed BLOB,
    expires_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX values_by_expiry ON private_values (expires_at_ms) WHERE sealed IS NOT NULL;
"""

_THIRD = """
-- How many Operations a principal has under way is asked at each acceptance.
CREATE INDEX unfinished_by_owner ON operations (owner) WHERE status NOT IN ('succeeded', 'failed');

-- Versions whose secrets do not open any more, as found when the host last looked.
CREATE TABLE lost_secrets (
    version_uid TEXT PRIMARY KEY REFERENCES resources (uid)
) STRICT, WITHOUT ROWID;
"""

_FOURTH = """
-- Resources of which more was found out than their record says, because a change of them was under way.
CREATE TABLE observations_due (
    uid TEXT PRIMARY KEY REFERENCES resources (uid)
) STRICT, WITHOUT ROWID;
"""

_FIFTH = """
-- Versions of whose bundles held bytes are gone or damaged, as found when the host last looked; `role` says of which.
CREATE TABLE lost_files (
    version_uid TEXT NOT NULL REFERENCES resources (uid),
    role TEXT NOT NULL CHECK (role IN ('bundle', 'assets')),
    PRIMARY KEY (version_uid, role)
) STRICT, WITHOUT ROWID;
"""

MIGRATIONS: Sequence[str] = (_FIRST, _SECOND, _THIRD, _FOURTH, _FIFTH)
