"""What a connection may do for statements that are not ours: SQLite's run-time limits and an authorizer.

Statements of the database itself (transactions, migrations) are not confined. Knows no table.
"""

from dataclasses import dataclass
from functools import cached_property
from secrets import token_hex

import apsw

_TRANSACTIONS = frozenset({apsw.SQLITE_TRANSACTION, apsw.SQLITE_SAVEPOINT})
_OTHER_FILES = frozenset({apsw.SQLITE_ATTACH, apsw.SQLITE_DETACH})
_TEMPORARY = frozenset(
    {
        apsw.SQLITE_CREATE_TEMP_INDEX,
        apsw.SQLITE_CREATE_TEMP_TABLE,
        apsw.SQLITE_CREATE_TEMP_TRIGGER,
        apsw.SQLITE_CREATE_TEMP_VIEW,
    }
)


_WRITES = ("INSERT", "UPDATE", "DELETE")
_MOST_KNOWN = 512
_LONGEST_KNOWN = 8_192


@dataclass(frozen=True, slots=True)
class Limits:
    """Run-time limits of one connection. Sizes are bytes of UTF-8, counts are what their names say."""

    parameters: int
    statement_bytes: int
    columns: int
    expression_depth: int
    compound_terms: int
    function_arguments: int
    like_pattern_bytes: int
    value_bytes: int

    def apply(self, connection: apsw.Connection) -> None:
        """Set them on a connection."""
        for limit, value in (
            (apsw.SQLITE_LIMIT_VARIABLE_NUMBER, self.parameters),
            (apsw.SQLITE_LIMIT_SQL_LENGTH, self.statement_bytes),
            (apsw.SQLITE_LIMIT_COLUMN, self.columns),
            (apsw.SQLITE_LIMIT_EXPR_DEPTH, self.expression_depth),
            (apsw.SQLITE_LIMIT_COMPOUND_SELECT, self.compound_terms),
            (apsw.SQLITE_LIMIT_FUNCTION_ARG, self.function_arguments),
            (apsw.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, self.like_pattern_bytes),
            (apsw.SQLITE_LIMIT_LENGTH, self.value_bytes),
            (apsw.SQLITE_LIMIT_ATTACHED, 0),
        ):
            connection.limit(limit, value)


@dataclass(frozen=True, slots=True)
class Confinement:
    """Limits, and the PRAGMAs that may be asked: those that take an object's name, and those that only tell.

    Refused always: BEGIN, COMMIT, ROLLBACK, SAVEPOINT, ATTACH, DETACH, VACUUM, temporary objects (they would be
    shared by every user of the connection) and a PRAGMA that sets anything.
    """

    limits: Limits
    pragmas_of_objects: frozenset[str]
    pragmas_that_tell: frozenset[str]

    def allows(self, action: int, first: str | None, second: str | None) -> bool:
        """Whether a statement may do this; `first` and `second` are what SQLite's authorizer says of the action."""
        if action == apsw.SQLITE_PRAGMA:
            name = (first or "").lower()
            return name in self.pragmas_of_objects or (name in self.pragmas_that_tell and second is None)
        return action not in _TRANSACTIONS | _OTHER_FILES | _TEMPORARY


class ConfinedConnection(apsw.Connection):
    """A connection whose own statements go through `control`; everybody else's are confined once `confine` ran."""

    _confinement: Confinement | None = None
    _is_controlling = False

    @cached_property
    def _secret(self) -> str:
        return token_hex(16)

    @cached_property
    def known_writes(self) -> set[str]:
        """Texts seen to be one statement without result columns: neither depends on the schema, so that they need
        not be looked at again.
        """
        return set()

    def remember_write(self, sql: str) -> None:
        """Add a text that was seen to run as one INSERT, UPDATE or DELETE that returns nothing."""
        known = self.known_writes
        if len(known) < _MOST_KNOWN and len(sql) <= _LONGEST_KNOWN and sql.lstrip()[:6].upper() in _WRITES:
            known.add(sql)

    def confine(self, confinement: Confinement) -> None:
        """From now on, `execute` runs only what the confinement allows."""
        confinement.limits.apply(self)
        self._confinement = confinement
        self.authorizer = self._authorize

    def control(self, sql: str) -> None:
        """Run a statement of the database itself, kept ready-made under a text that nobody else can guess."""
        self._is_controlling = True
        try:
            self.execute(f"{sql} -- {self._secret}")
        finally:
            self._is_controlling = False

    def _authorize(
        self, action: int, first: str | None, second: str | None, schema: str | None, trigger: str | None
    ) -> int:
        if self._is_controlling or self._confinement is None or self._confinement.allows(action, first, second):
            return apsw.SQLITE_OK
        return apsw.SQLITE_DENY
