"""Opens both databases of a state directory and says what is wrong with one that does not open. Knows no table."""

from collections.abc import Sequence
from pathlib import Path

from emulator.artifacts import SCHEMA as ARTIFACTS
from emulator.compose.errors import FoundationUnusable
from emulator.compose.state import StateDirectory
from emulator.workflow import schema as emulator_schema
from host.sqlite import Database, DatabaseCorrupt, DatabaseError, NewerDatabase
from host.store import schema as control_schema

EMULATOR_MIGRATIONS = (emulator_schema.MIGRATIONS[0] + ARTIFACTS, *emulator_schema.MIGRATIONS[1:])
"""The tables of every part that keeps rows beside the runs."""


async def open_control_database(state: StateDirectory) -> Database:
    """Resources and Operations. Raises `FoundationUnusable`."""
    return await _open(state.control_database, control_schema.APPLICATION_ID, control_schema.MIGRATIONS)


async def open_emulator_database(state: StateDirectory) -> Database:
    """Catalog, runs and artifacts. Raises `FoundationUnusable`."""
    return await _open(state.emulator_database, emulator_schema.APPLICATION_ID, EMULATOR_MIGRATIONS)


async def _open(path: Path, application_id: int, migrations: Sequence[str]) -> Database:
    try:
        return await Database.open(path, application_id=application_id, migrations=migrations)
    except NewerDatabase as error:
        raise FoundationUnusable(str(error)) from error
    except DatabaseCorrupt as error:
        raise FoundationUnusable(f"{path} is damaged ({error}): restore it or choose another --state-dir") from error
    except DatabaseError as error:
        raise FoundationUnusable(f"cannot open {path}: {error}") from error
