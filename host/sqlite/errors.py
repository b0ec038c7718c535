"""One error tree for SQLite: no exception of the driver leaves `host.sqlite`."""

from collections.abc import Iterator
from contextlib import contextmanager

import apsw


class DatabaseError(Exception):
    """Anything SQLite refused; the message is SQLite's own."""


class ConstraintFailed(DatabaseError):
    """A uniqueness, check, not-null or strict-type rule of the schema."""


class DatabaseBusy(DatabaseError):
    """Another process kept the lock beyond the deadline; nothing was written."""


class DatabaseFull(DatabaseError):
    """No room or an I/O failure; the commit did not happen."""


class DatabaseCorrupt(DatabaseError):
    """The file is not a database or is damaged."""


class DatabaseUnusable(DatabaseError):
    """The file cannot be opened or belongs to another application."""


class NewerDatabase(DatabaseError):
    """The file was written by a newer version of this program."""


class StatementRefused(DatabaseError):
    """The SQL text or a bound value is not acceptable."""


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
    (apsw.TooBigError, StatementRefused),
)


@contextmanager
def translated() -> Iterator[None]:
    """Turn a driver exception into one of ours, the original kept as its cause."""
    try:
        yield
    except apsw.Error as error:
        for theirs, ours in _CLASSES:
            if isinstance(error, theirs):
                raise ours(str(error)) from error
        raise DatabaseError(str(error)) from error
    except (TypeError, OverflowError) as error:
        raise StatementRefused(f"a bound value is not storable: {error}") from error
