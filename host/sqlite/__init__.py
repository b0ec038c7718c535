"""SQLite for every store of ours: one writer with group commit, one snapshot reader. Knows no table."""

from host.sqlite.database import Database
from host.sqlite.errors import (
    ConstraintFailed,
    DatabaseBusy,
    DatabaseCorrupt,
    DatabaseError,
    DatabaseFull,
    DatabaseUnusable,
    NewerDatabase,
    StatementRefused,
)
from host.sqlite.transaction import Transaction, Value

__all__ = [
    "ConstraintFailed",
    "Database",
    "DatabaseBusy",
    "DatabaseCorrupt",
    "DatabaseError",
    "DatabaseFull",
    "DatabaseUnusable",
    "NewerDatabase",
    "StatementRefused",
    "Transaction",
    "Value",
]
