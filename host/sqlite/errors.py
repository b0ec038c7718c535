"""One error tree for SQLite: no exception of the driver leaves `host.sqlite`."""

from collections.abc import Iterator
from contextlib import contextmanager

import apsw

from host.model.room import NoRoom


class DatabaseError(Exception):
    """Anything SQLite refused; the message is SQLite's own."""


class ConstraintFailed(DatabaseError):
    """A uniqueness, check, not-null or strict-type rule of the schema."""


class DatabaseBusy(DatabaseError):
    """Another process kept the lock beyond the deadline; nothing was written."""


class DatabaseFull(DatabaseError, NoRoom):
    """No room or an I/O failure; the commit did not happen."""


class AnswerLost(DatabaseError):
    """The database did not answer: nobody can tell whether the transaction was committed."""


class DatabaseCorrupt(DatabaseError):
    """The file is not a database or is damaged."""


class DatabaseUnusable(DatabaseError):
    """The file cannot be opened or belongs to another application."""


class NewerDatabase(DatabaseError):
    """The file was written by a newer version of this program."""


class StatementRefused(DatabaseError):
    """The SQL text or a bound value is not acceptable."""


class ValueRefused(StatementRefused):
    """A bound value is not null, an integer of 64 bits, a finite float, a text or bytes."""


class LimitExceeded(StatementRefused):
    """The statement or a value is larger than a limit of the connection."""


class NotAuthorized(StatementRefused):
    """The statement would control transactions, open other files, set a PRAGMA or make temporary objects."""


DRIVER_ERRORS = (apsw.Error, TypeError, OverflowError, UnicodeEncodeError)
"""What the driver raises, for a statement or for a value it cannot bind."""

_CLASSES: tuple[tuple[type[Exception], type[DatabaseError]], ...] = (
    (apsw.ConstraintError, ConstraintFailed),
    (apsw.BusyError, DatabaseBusy),
    (apsw.LockedError, DatabaseBusy),
    (apsw.FullError, DatabaseFull),
    (apsw.IOError, DatabaseFull),
    (apsw.CorruptError, DatabaseCorrupt),
    (apsw.NotADBError, DatabaseCorrupt),
    (apsw.CantOpenError, DatabaseUnusable),
    (apsw.ReadOnlyError, DatabaseUnusable),
    (apsw.PermissionsError, DatabaseUnusable),
    (apsw.SQLError, StatementRefused),
    (apsw.BindingsError, StatementRefused),
    (apsw.TooBigError, LimitExceeded),
    (apsw.AuthError, NotAuthorized),
)
_LIMIT_MESSAGES = (
    "too many",
    "Expression tree is too large",
    "pattern too complex",
    "variable number must be between",
)


def _class_of(error: apsw.Error) -> type[DatabaseError]:
    for theirs, ours in _CLASSES:
        if isinstance(error, theirs):
            is_limit = ours is StatementRefused and any(part in str(error) for part in _LIMIT_MESSAGES)
            return LimitExceeded if is_limit else ours
    return DatabaseError


@contextmanager
def translated() -> Iterator[None]:
    """Turn a driver exception into one of ours, the original kept as its cause."""
    try:
        yield
    except DRIVER_ERRORS as error:
        raise translation(error) from error


def translation(error: Exception) -> DatabaseError:
    """The exception of ours for one of `DRIVER_ERRORS`."""
    if isinstance(error, apsw.Error):
        return _class_of(error)(str(error))
    return ValueRefused(f"a bound value is not storable: {error}")
