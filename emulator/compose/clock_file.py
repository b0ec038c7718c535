"""The clock of a host across its lives: a file that is durable before a change shows. Knows no waiting."""

import json
from collections.abc import Callable
from pathlib import Path

from emulator.compose.authority import write_private
from emulator.compose.errors import FoundationUnusable
from host.model.time import ClockMode, ClockState, ControlledClock


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
