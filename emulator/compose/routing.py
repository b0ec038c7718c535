"""Makes the gateway's table from the catalog's rows and hands it over, one table after the other. Keeps no row."""

import asyncio
from collections.abc import Callable, Mapping

from emulator.catalog import Catalog, WorkerRoute
from emulator.contexts import StopEvidence
from emulator.runtime.gateway import Gateway
from emulator.runtime.routes import FoundRoute, GatewayRoute, RoutedVersion, RouteTable
from host.ports import VersionRecord, Weight


class Routing:
    """Publishes whole tables in order, so that an older one never replaces a newer one (WD-04)."""

    def __init__(
        self,
        catalog: Catalog,
        gateway: Gateway,
        default_worker: str | None,
        tell_names: Callable[[Mapping[str, str]], None] = lambda names: None,
    ) -> None:
        self._catalog = catalog
        self._gateway = gateway
        self._default_worker = default_worker
        self._tell_names = tell_names
        self._publishing = asyncio.Lock()
        self._next: asyncio.Task[None] | None = None

    async def publish(self) -> None:
        """Return when every new request goes by the rows as of the call, or later. Raises `BackendUnavailable`.

        Calls that wait for their turn share it: a table speaks of all Workers, so one that is read afterwards will do.
        """
        if self._next is None:
            self._next = asyncio.create_task(self._publish_in_turn(), name="publish routes")
            self._next.add_done_callback(_look_at_error)
        await asyncio.shield(self._next)

    async def is_executing(self, version_uid: str) -> bool:
        """Whether a request still runs on the Version (WV-09)."""
        return await self._gateway.is_executing(version_uid)

    async def look_up(self, hostname: str) -> FoundRoute | None:
        """Where the gateway leads the name now; none when it is nobody's. Raises `BackendUnavailable`."""
        return await self._gateway.look_up(hostname)

    async def retire(self, version_uid: str) -> None:
        """Stop requests that still run on a Version which is in no table any more (WD-07)."""
        await self._gateway.retire(version_uid)

    async def withdraw(self, version_uid: str) -> StopEvidence | None:
        """Stop requests of a Version fifteen minutes after it left the weights, unless it is in them again (WD-04).

        No table is published meanwhile, so that none names a Version that the gateway then forgets.
        """
        async with self._publishing:
            if await self._catalog.is_weighted(version_uid):
                return None
            return await self._gateway.retire(version_uid)

    async def _publish_in_turn(self) -> None:
        async with self._publishing:
            self._next = None  # whoever comes from now on may have written what this table does not say
            await self._gateway.publish(await self.table())

    async def table(self) -> RouteTable:
        """What the rows say now."""
        active = {route.worker_uid: route for route in await self._catalog.routes()}
        names = await self._catalog.names()
        endpoints = await self._catalog.endpoints()
        self._tell_names(names)
        routes = [await self._route(uid, name, active.get(uid), endpoints.get(uid, ())) for uid, name in names.items()]
        return RouteTable(tuple(routes), self._default_worker)

    async def _route(
        self, worker_uid: str, name: str, deployed: WorkerRoute | None, endpoints: tuple[str, ...]
    ) -> GatewayRoute:
        if deployed is None:
            return GatewayRoute(worker_uid, name, (), endpoints)
        versions = await self._versions(deployed.weights)
        return GatewayRoute(worker_uid, name, versions, endpoints, deployed.activation)

    async def _versions(self, weights: tuple[Weight, ...]) -> tuple[RoutedVersion, ...]:
        found = [(await self._catalog.version(weight.version_uid), weight.weight) for weight in weights]
        return tuple(RoutedVersion(version, share) for version, share in found if isinstance(version, VersionRecord))


def _look_at_error(published: "asyncio.Task[None]") -> None:
    """Those who waited may all be gone; then nobody else looks."""
    if not published.cancelled():
        published.exception()
