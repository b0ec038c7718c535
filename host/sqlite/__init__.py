"""SQLite for every store of ours: one writer with group commit, one snapshot reader. Knows no table."""

from host.sqlite.confinement import Confinement, Limits
from host.sqlite.database import Database
from host.sqlite.errors import (
    AnswerLost,
    ConstraintFailed,
    DatabaseBusy,
    DatabaseCorrupt,
    DatabaseError,
    DatabaseFull,
    DatabaseUnusable,
    LimitExceeded,
    NewerDatabase,
    NotAuthorized,
    StatementRefused,
    ValueRefused,
)
from host.sqlite.transaction import Answer, Transaction, Value

__all__ = [
    "Answer",
    "AnswerLost",
    "Confinement",
    "ConstraintFailed",
    "Database",
    "DatabaseBusy",
    "DatabaseCorrupt",
    "DatabaseError",
    "DatabaseFull",
    "DatabaseUnusable",
    "LimitExceeded",
    "Limits",
    "NewerDatabase",
    "NotAuthorized",
    "StatementRefused",
    "Transaction",
    "Value",
    "ValueRefused",
]
