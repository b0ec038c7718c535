"""Brings a database file to the present schema, or refuses it untouched."""

from collections.abc import Sequence
from pathlib import Path

import apsw

from host.sqlite.connection import apply_settings
from host.sqlite.errors import DatabaseUnusable, NewerDatabase, translated


def migrate(connection: apsw.Connection, path: Path, application_id: int, migrations: Sequence[str]) -> None:
    """Run the scripts from the file's `user_version` on, in one transaction, after a copy of an older file.

    `migrations[i]` brings version i to i + 1. Raises `NewerDatabase` for a file of a later version and
    `DatabaseUnusable` for one of another application; neither is changed.
    """
    with translated():
        found_id = connection.pragma("application_id")
        version = connection.pragma("user_version")
        is_new = version == 0 and not connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
    if found_id != application_id and not is_new:
        raise DatabaseUnusable(f"{path} is a database of another application")
    if version > len(migrations):
        raise NewerDatabase(f"{path} was written by a newer takohost (schema {version}): upgrade takohost to use it")
    with translated():
        apply_settings(connection)
        if version == len(migrations):
            return
        if not is_new:
            _copy_aside(connection, path, version)
        _run_scripts(connection, application_id, migrations)


def _copy_aside(connection: apsw.Connection, path: Path, version: int) -> None:
    copy = path.with_name(f"{path.name}.schema-{version}.bak")
    copy.unlink(missing_ok=True)
    connection.execute("VACUUM INTO ?", (str(copy),))


def _run_scripts(connection: apsw.Connection, application_id: int, migrations: Sequence[str]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = connection.pragma("user_version")  # another process may have come first
        for script in migrations[version:]:
            connection.execute(script)
        connection.execute(f"PRAGMA application_id = {application_id:d}")
        connection.execute(f"PRAGMA user_version = {len(migrations):d}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
