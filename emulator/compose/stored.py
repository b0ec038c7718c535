"""Opens what earlier lives of the host have stored: both databases and the clock. Knows no table."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from emulator.artifacts import SCHEMA as ARTIFACTS
from emulator.compose.authority import write_private
from emulator.compose.errors import FoundationUnusable
from emulator.compose.state import StateDirectory
from emulator.workflow import schema as emulator_schema
from host.model.time import ClockMode, ClockState, ControlledClock
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


def load_clock(path: Path) -> ControlledClock:
    """The clock as the last life left it; every change is durable before it shows. Raises `FoundationUnusable`."""
    return ControlledClock(_load_state(path), save=_saver(path))


def _load_state(path: Path) -> ClockState:
    try:
        document = json.loads(path.read_bytes())
        value = document["valueMs"]
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError("valueMs is no integer")
        return ClockState(ClockMode(document["mode"]), value)
    except FileNotFoundError:
        return ClockState()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FoundationUnusable(f"{path} is damaged ({error}): restore or remove it") from error


def _saver(path: Path) -> Callable[[ClockState], None]:
    def save(state: ClockState) -> None:
        document = {"mode": state.mode.value, "valueMs": state.value_ms}
        write_private(path, json.dumps(document).encode())

    return save
