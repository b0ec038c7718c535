"""Statements and results as values: a text with its bound values, rows with a count. Executes nothing."""

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
class Result:
    """What one statement of a batch gave: its rows, and how many rows it changed."""

    rows: tuple[Row, ...]
    changes: int

    @property
    def is_applied(self) -> bool:
        """Whether a guarded write took place: its fence held."""
        return self.changes > 0


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
