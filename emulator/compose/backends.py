"""Worker, Version and Deployment ports on the catalog: rows first, then those who act on them are told.

Every call may be repeated; the rows are the truth, and gateway and engine are brought into line with them each time.
"""

from typing import Protocol

from emulator.catalog import Catalog
from host.ports import BackendUnavailable, VersionRecord, Weight


class RouteTable(Protocol):
    """The gateway: who answers HTTP."""

    async def push_routes(self) -> None:
        """Return when every new request is chosen by the catalog's weights. Raises `BackendUnavailable`."""

    async def retire_version(self, version_uid: str) -> None:
        """End what still runs on a Version, proven. Raises `BackendUnavailable`."""


class InstanceStarts(Protocol):
    """The workflow engine: who starts contexts."""

    def deployments_changed(self) -> None:
        """Look again at what may start."""

    async def stop_worker(self, worker_uid: str) -> None:
        """Stop every context of a Worker that has no Deployment any more, with evidence."""

    def is_executing(self, version_uid: str) -> bool: ...


class CatalogWorkers:
    """The WorkerPort: a Worker is a name for its uid (MW-01)."""

    def __init__(self, catalog: Catalog, routes: RouteTable) -> None:
        self._catalog = catalog
        self._routes = routes

    async def register(self, worker_uid: str, name: str) -> None:
        await self._catalog.put_worker(worker_uid, name)

    async def retire(self, worker_uid: str) -> None:
        await self._catalog.remove_worker(worker_uid)
        await self._routes.push_routes()
