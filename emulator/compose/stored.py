"""Opens both databases of a state directory and says what is wrong with one that does not open. Knows no table."""

from collections.abc import Sequence
from pathlib import Path

from emulator.artifacts import LOSSES
from emulator.artifacts import SCHEMA as ARTIFACTS
from emulator.bindings.queue import SCHEMA as QUEUE
from emulator.compose.errors import FoundationUnusable
from emulator.compose.state import StateDirectory
from emulator.d1 import with_values_up_to
from emulator.workflow import schema as emulator_schema
from host.sqlite import Confinement, Database, DatabaseCorrupt, DatabaseError, NewerDatabase
from host.store import schema as control_schema

_OF_RUNS = emulator_schema.MIGRATIONS
EMULATOR_MIGRATIONS = (_OF_RUNS[0] + ARTIFACTS, *_OF_RUNS[1:8], QUEUE, _OF_RUNS[8] + LOSSES, *_OF_RUNS[9:])
"""The tables of every part that keeps rows beside the runs, in the order in which they came about."""
_CONFINEMENT = with_values_up_to(16 * 1024 * 1024)
"""A run row holds params and output as JSON strings, of up to 2 MiB each once escaped."""


async def open_control_database(state: StateDirectory) -> Database:
    """Resources and Operations. Raises `FoundationUnusable`."""
    return await _open(state.control_database, control_schema.APPLICATION_ID, control_schema.MIGRATIONS)


async def open_emulator_database(state: StateDirectory) -> Database:
    """Catalog, runs and artifacts. Raises `FoundationUnusable`."""
    return await _open(state.emulator_database, emulator_schema.APPLICATION_ID, EMULATOR_MIGRATIONS, _CONFINEMENT)


async def _open(
    path: Path, application_id: int, migrations: Sequence[str], confinement: Confinement | None = None
) -> Database:
    try:
        return await Database.open(path, application_id=application_id, migrations=migrations, confinement=confinement)
    except NewerDatabase as error:
        raise FoundationUnusable(str(error)) from error
    except DatabaseCorrupt as error:
        raise FoundationUnusable(f"{path} is damaged ({error}): restore it or choose another --state-dir") from error
    except DatabaseError as error:
        raise FoundationUnusable(f"cannot open {path}: {error}") from error
