"""The fenced run store: one row per run, its snapshot as JSON text, every change a compare-and-set (RS)."""

from emulator.runstore.address import RunAddress
from emulator.runstore.admission import Admitted
from emulator.runstore.changes import EndKind, Liveness, Terminalization
from emulator.runstore.inputs import (
    Expectation,
    InitialAdmission,
    InitialTerminalization,
    LifecyclePatch,
    Replacement,
    Reservation,
)
from emulator.runstore.persisting import SnapshotWrite
from emulator.runstore.rows import RunRow
from emulator.runstore.scopes import StoredRunScope
from emulator.runstore.store import FencedRunStore, Recovery

__all__ = [
    "Admitted",
    "EndKind",
    "Expectation",
    "FencedRunStore",
    "InitialAdmission",
    "InitialTerminalization",
    "LifecyclePatch",
    "Liveness",
    "Recovery",
    "Replacement",
    "Reservation",
    "RunAddress",
    "RunRow",
    "SnapshotWrite",
    "StoredRunScope",
    "Terminalization",
]
