"""The EndpointPort on this machine: names below `workers.localhost`, rows of the catalog, and a look at both ways in.

Knows no Form. A look never reaches a Worker's code: it ends with the TLS handshake and the gateway's own table.
"""

import asyncio
import contextlib
import ssl
from dataclasses import dataclass
from pathlib import Path

from emulator.catalog import Catalog
from emulator.compose.routing import Routing
from emulator.runtime.addresses import worker_hostname
from host.ports import BackendError, EndpointReport

PROBE_S = 5.0
_FAREWELL_S = 1.0


@dataclass(frozen=True, slots=True)
class SecureIngress:
    """Where the ingress speaks TLS, as `host:port`, and the authority that its clients trust."""

    address: str
    ca: Path


class CatalogEndpoints:
    """Rows first, then the gateway is told: every call may be repeated."""

    def __init__(self, catalog: Catalog, routing: Routing, ingress: SecureIngress) -> None:
        self._catalog = catalog
        self._routing = routing
        self._address = ingress.address
        self._trust = ssl.create_default_context(cafile=ingress.ca)

    def hostname(self, endpoint_uid: str, name: str) -> str:
        """Of the endpoint's own name and uid, so that it differs from every Worker's (WE-04)."""
        return worker_hostname(name, endpoint_uid)

    async def attach(self, endpoint_uid: str, worker_uid: str, hostname: str) -> None:
        await self._catalog.put_endpoint(endpoint_uid, worker_uid, hostname)
        await self._routing.publish()

    async def probe(self, worker_uid: str, hostname: str) -> EndpointReport:
        is_tls_ready, (is_routed, is_served) = await asyncio.gather(
            self._tls(hostname), self._route(worker_uid, hostname)
        )
        return EndpointReport(is_tls_ready, is_routed, is_served)

    async def detach(self, endpoint_uid: str) -> None:
        await self._catalog.remove_endpoint(endpoint_uid)
        await self._routing.publish()

    async def _tls(self, hostname: str) -> bool | None:
        """Whether a client that trusts the local authority can shake hands under the name.

        An end in the middle, as of a gateway that is killed, proves nothing.
        """
        address, _, port = self._address.rpartition(":")
        try:
            async with asyncio.timeout(PROBE_S):
                _, writer = await asyncio.open_connection(
                    address, int(port), ssl=self._trust, server_hostname=hostname, ssl_shutdown_timeout=_FAREWELL_S
                )
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError, TimeoutError):
            return None
        except ssl.SSLError:
            return False
        except OSError:
            return None
        writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            await writer.wait_closed()
        return True

    async def _route(self, worker_uid: str, hostname: str) -> tuple[bool | None, bool | None]:
        """Whether the serving gateway leads the name to the Worker, and whether it has Versions there."""
        try:
            found = await self._routing.look_up(hostname)
        except BackendError:
            return None, None
        if found is None or found.worker_uid != worker_uid:
            return False, False
        return True, found.is_served
