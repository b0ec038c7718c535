"""A D1-shaped client over the SQLite of one file. Knows no table and no rule of its users.

Every error is of the one tree `host.sqlite.DatabaseError`; no exception of a driver leaves this package.
"""

from emulator.d1.database import Database, PreparedStatement
from emulator.d1.driver import Driver, FileDriver
from emulator.d1.limits import CONFINEMENT, LIMITS, with_values_up_to
from emulator.d1.statement import ExecResult, Meta, Result, Statement, named

__all__ = [
    "CONFINEMENT",
    "LIMITS",
    "Database",
    "Driver",
    "ExecResult",
    "FileDriver",
    "Meta",
    "PreparedStatement",
    "Result",
    "Statement",
    "named",
    "with_values_up_to",
]
