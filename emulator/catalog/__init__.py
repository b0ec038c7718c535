"""Workers, Versions and the weights in force, as rows that gateway and workflow engine read. Runs nothing."""

from emulator.catalog.catalog import Catalog, WorkerRoute
from emulator.catalog.withdrawal_rows import GRACE_MS, Withdrawal

__all__ = ["GRACE_MS", "Catalog", "Withdrawal", "WorkerRoute"]
