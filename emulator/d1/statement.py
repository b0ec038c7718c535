"""Statements and results as values: a text with its bound values, rows with names and counts. Executes nothing."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from host.sqlite import Value
from host.sqlite.transaction import Row

_NAME = re.compile(r":([a-z_]+)")


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL text with `?` or `?NNN` parameters and the values bound to them, in order."""

    sql: str
    values: tuple[Value, ...] = ()

    @property
    def is_query(self) -> bool:
        """Whether it can run on the reading connection."""
        return self.sql.lstrip()[:6].upper() == "SELECT"


@dataclass(frozen=True, slots=True)
class Meta:
    """What D1 tells beside the rows; `duration_ms` is the time inside the database."""

    changes: int
    last_row_id: int
    changed_db: bool
    duration_ms: float


@dataclass(frozen=True, slots=True)
class Result:
    """What one statement gave: its rows, and how many rows it changed (0 for one that reads)."""

    rows: tuple[Row, ...]
    changes: int
    columns: tuple[str, ...] = ()
    last_row_id: int = 0
    duration_ms: float = 0.0

    @property
    def is_applied(self) -> bool:
        """Whether a guarded write took place: its fence held."""
        return self.changes > 0

    @property
    def results(self) -> list[dict[str, Value]]:
        """Row objects by column name; of columns with one name the last stays, as in D1."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    @property
    def meta(self) -> Meta:
        return Meta(self.changes, self.last_row_id, self.changes > 0, self.duration_ms)


@dataclass(frozen=True, slots=True)
class ExecResult:
    """How many statements a script held, and how long they took."""

    count: int
    duration_ms: float


@lru_cache(maxsize=512)
def _numbered(sql: str) -> tuple[str, tuple[str, ...]]:
    names: list[str] = []

    def number(match: re.Match[str]) -> str:
        if match[1] not in names:
            names.append(match[1])
        return f"?{names.index(match[1]) + 1}"

    return _NAME.sub(number, sql), tuple(names)


def named(sql: str, values: Mapping[str, Value]) -> Statement:
    """A statement with `:name` parameters, each used once or more; values not named in the text are left out.

    Raises `KeyError` for a parameter without a value. The text must hold no other colon.
    """
    text, names = _numbered(sql)
    return Statement(text, tuple(values[name] for name in names))
