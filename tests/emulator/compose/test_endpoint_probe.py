"""A look at an address: what proves that TLS holds, what proves that it does not, and what proves nothing."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from emulator.compose.authority import ServerIdentity, server_identity
from emulator.compose.endpoints import CatalogEndpoints, SecureIngress
from emulator.runtime.routes import FoundRoute
from host.ports import BackendUnavailable, EndpointReport

NAME = "front-abcdefgh.workers.localhost"
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class FixedRouting:
    """A gateway's table with one answer; an error is raised."""

    def __init__(self, found: FoundRoute | BackendUnavailable | None) -> None:
        self._found = found

    async def look_up(self, hostname: str) -> FoundRoute | None:
        if isinstance(self._found, BackendUnavailable):
            raise self._found
        return self._found


@pytest.fixture
def identity(tmp_path: Path) -> ServerIdentity:
    return server_identity(tmp_path / "tls")


def server_tls(identity: ServerIdentity) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity.certificate, identity.key)
    return context


@asynccontextmanager
async def listening(serve: Serve, tls: ssl.SSLContext | None) -> AsyncIterator[str]:
    """Its `host:port`."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def until_the_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


def endpoints(address: str, ca: Path, found: FoundRoute | BackendUnavailable | None) -> CatalogEndpoints:
    return CatalogEndpoints(cast(Any, None), cast(Any, FixedRouting(found)), SecureIngress(address, ca))


@pytest.mark.req("WE-06", "WE-09")
async def test_a_handshake_under_the_name_is_all_that_is_sent(identity: ServerIdentity) -> None:
    said: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said.set_result(await reader.read())
        writer.close()

    async with listening(listen, server_tls(identity)) as address:
        served = endpoints(address, identity.ca, FoundRoute("w-1", is_served=True))
        assert await served.probe("w-1", NAME) == EndpointReport(True, True, True)
        assert await said == b""


@pytest.mark.req("WE-06")
async def test_a_certificate_of_another_authority_or_name_proves_that_tls_is_not_ready(
    identity: ServerIdentity, tmp_path: Path
) -> None:
    other = server_identity(tmp_path / "other")
    async with listening(until_the_end, server_tls(identity)) as address:
        assert (await endpoints(address, other.ca, None).probe("w-1", NAME)).is_tls_ready is False
        elsewhere = await endpoints(address, identity.ca, None).probe("w-1", "front.elsewhere.localhost")
        assert elsewhere.is_tls_ready is False


@pytest.mark.req("WE-06", "WE-12")
async def test_a_connection_that_is_refused_or_cut_proves_nothing(identity: ServerIdentity) -> None:
    async with listening(hang_up, None) as address:
        cut = await endpoints(address, identity.ca, BackendUnavailable("away")).probe("w-1", NAME)
    refused = await endpoints(address, identity.ca, BackendUnavailable("away")).probe("w-1", NAME)
    assert (cut, refused) == (EndpointReport(), EndpointReport())


@pytest.mark.req("WE-06")
@pytest.mark.parametrize(
    ("found", "is_routed", "is_served"),
    [
        (FoundRoute("w-1", is_served=False), True, False),
        (FoundRoute("w-2", is_served=True), False, False),
        (None, False, False),
    ],
)
async def test_a_name_counts_as_routed_only_to_its_own_worker(
    identity: ServerIdentity, found: FoundRoute | None, is_routed: bool, is_served: bool
) -> None:
    async with listening(until_the_end, server_tls(identity)) as address:
        report = await endpoints(address, identity.ca, found).probe("w-1", NAME)
        assert report == EndpointReport(True, is_routed, is_served)
