"""A D1-shaped client over the SQLite of one file. Knows no table and no rule of its users."""

from emulator.d1.database import Database, PreparedStatement
from emulator.d1.statement import Result, Statement, named

__all__ = ["Database", "PreparedStatement", "Result", "Statement", "named"]
