"""Worker, Version and Deployment ports on the catalog: rows first, then those who act on them are told.

Every call may be repeated: the rows are the truth, and gateway and engine are brought into line with them each time.
"""

import logging
from typing import Protocol

from emulator.catalog import Catalog
from emulator.compose.routing import Routing
from host.model.time import Clock
from host.ports import BackendUnavailable, VersionRecord, Weight

_LOG = logging.getLogger(__name__)


class InstanceStarts(Protocol):
    """The part of the workflow engine that Deployments concern."""

    def deployments_changed(self) -> None:
        """Look again at what may start."""

    async def stop_worker(self, worker_uid: str) -> None:
        """Return when no context of a Worker without a Deployment executes, with evidence."""

    async def is_executing(self, version_uid: str) -> bool:
        """Whether a context runs on the Version."""


class Departures(Protocol):
    """Who ends, in time, what runs on Versions that left the weights."""

    def deployments_changed(self) -> None:
        """Look again which have."""


class CatalogWorkers:
    """The WorkerPort: a Worker is a name for its uid (MW-01)."""

    def __init__(self, catalog: Catalog, routing: Routing) -> None:
        self._catalog = catalog
        self._routing = routing

    async def register(self, worker_uid: str, name: str) -> None:
        await self._catalog.put_worker(worker_uid, name)
        await self._routing.publish()

    async def retire(self, worker_uid: str) -> None:
        await self._catalog.remove_worker(worker_uid)
        await self._routing.publish()


class CatalogVersions:
    """The VersionPort: the host's running copy of a Version is its row and the code it names (WV-09)."""

    def __init__(self, catalog: Catalog, routing: Routing, starts: InstanceStarts) -> None:
        self._catalog = catalog
        self._routing = routing
        self._starts = starts

    async def install(self, version: VersionRecord) -> None:
        await self._catalog.put_version(version)

    async def lost_secrets(self) -> frozenset[str]:
        return await self._catalog.note_lost_secrets()

    async def withhold(self, version_uids: frozenset[str]) -> None:
        """The rows count: a gateway that is not there to take its table now takes one that says so when it starts."""
        await self._catalog.withhold(version_uids)
        self._starts.deployments_changed()
        try:
            await self._routing.publish()
        except BackendUnavailable as error:
            _LOG.warning("what is withheld is known to the gateway once it runs: %s", error)

    async def is_executing(self, version_uid: str) -> bool:
        return await self._starts.is_executing(version_uid) or await self._routing.is_executing(version_uid)

    async def remove(self, version_uid: str) -> None:
        await self._catalog.remove_version(version_uid)
        await self._routing.retire(version_uid)


class CatalogDeployments:
    """The DeploymentPort: weights in the catalog, in the gateway's table and in the engine's choice (WD-03)."""

    def __init__(
        self, catalog: Catalog, routing: Routing, starts: InstanceStarts, departures: Departures, clock: Clock
    ) -> None:
        self._catalog = catalog
        self._routing = routing
        self._starts = starts
        self._departures = departures
        self._clock = clock

    async def activate(self, deployment_uid: str, worker_uid: str, weights: tuple[Weight, ...]) -> None:
        await self._catalog.activate(deployment_uid, worker_uid, weights, self._clock.now_ms())
        await self._routing.publish()
        self._starts.deployments_changed()
        self._departures.deployments_changed()

    async def retire(self, deployment_uid: str, worker_uid: str) -> None:
        """Close selection first; then prove that contexts and requests of every Version have stopped (WD-07)."""
        await self._catalog.retire_deployment(deployment_uid)
        await self._routing.publish()
        if worker_uid in {route.worker_uid for route in await self._catalog.routes()}:
            return  # another Deployment of the Worker is in force: nothing of it is ours to stop
        await self._starts.stop_worker(worker_uid)
        for version_uid in await self._catalog.versions_of(worker_uid):
            await self._routing.retire(version_uid)
