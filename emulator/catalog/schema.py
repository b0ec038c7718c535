"""Tables of the catalog, in the file of the runs so that one statement can ask both."""

SCHEMA = """
CREATE TABLE catalog_workers (
    worker_uid TEXT PRIMARY KEY,
    name TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE catalog_versions (
    version_uid TEXT PRIMARY KEY,
    worker_uid TEXT NOT NULL,
    code_digest TEXT NOT NULL,
    vars_json TEXT NOT NULL,
    bindings_json TEXT NOT NULL,
    handlers_json TEXT NOT NULL,
    classes_json TEXT NOT NULL
) STRICT;
CREATE TABLE catalog_deployments (
    worker_uid TEXT PRIMARY KEY,
    deployment_uid TEXT NOT NULL,
    epoch INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE catalog_weights (
    worker_uid TEXT NOT NULL,
    version_uid TEXT NOT NULL,
    weight INTEGER NOT NULL CHECK (weight BETWEEN 1 AND 10000),
    PRIMARY KEY (worker_uid, version_uid)
) STRICT, WITHOUT ROWID;
"""

SECRETS = """
ALTER TABLE catalog_versions ADD COLUMN secrets_sealed BLOB;
"""
"""The values of a Version's sensitive names, sealed with the host key; NULL when it has none (HA-61)."""

ASSETS = """
ALTER TABLE catalog_versions ADD COLUMN assets_json TEXT;
"""
"""`[manifest digest, whether code comes first, whether a single page is fallen back to]`; NULL without assets.

A Version without a bundle has the code digest '' (WV-02).
"""

WITHDRAWALS = """
CREATE TABLE catalog_withdrawals (
    version_uid TEXT PRIMARY KEY,
    worker_uid TEXT NOT NULL,
    left_at_ms INTEGER NOT NULL,
    due_at_ms INTEGER NOT NULL,
    ended_at TEXT,
    evidence_json TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX catalog_withdrawals_due ON catalog_withdrawals (due_at_ms) WHERE ended_at IS NULL;
"""
"""Versions that left the weights, and until when what they still run may go on (WD-04)."""

ENDPOINTS = """
CREATE TABLE catalog_endpoints (
    endpoint_uid TEXT PRIMARY KEY,
    worker_uid TEXT NOT NULL,
    hostname TEXT NOT NULL UNIQUE
) STRICT, WITHOUT ROWID;
"""
"""Assigned addresses of Workers: the route of each endpoint (WE-13)."""

LOSSES = "ALTER TABLE catalog_versions ADD COLUMN has_lost_secrets INTEGER NOT NULL DEFAULT 0;"
"""Whether the sealed secrets of a Version open, as of the last look: no statement can tell by itself (WD-08)."""

FILE_LOSSES = """
CREATE TABLE catalog_withheld (
    version_uid TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;
"""
"""Versions that nothing new is started on, because held bytes that they are made of are gone or damaged (WD-08)."""
