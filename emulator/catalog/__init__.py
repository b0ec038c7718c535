"""Workers, Versions and the weights in force, as rows that gateway and workflow engine read. Runs nothing."""

from emulator.catalog.catalog import Catalog, WorkerRoute

__all__ = ["Catalog", "WorkerRoute"]
