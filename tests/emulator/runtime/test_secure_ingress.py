"""A gateway that also speaks TLS: one table for both ways in, names that lead to a Worker, a key that nobody reads."""

import asyncio
import os
import signal
import socket
import ssl
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from emulator.compose.authority import ServerIdentity, server_identity
from emulator.runtime.config import KeyPair
from emulator.runtime.kernels import SecureListener
from emulator.runtime.process import Launcher
from emulator.runtime.routes import FoundRoute, GatewayRoute, RoutedVersion, RouteTable
from host.ports import BackendUnavailable
from tests.emulator.runtime.bundles import Bundler
from tests.emulator.runtime.gateways import DEADLINE_S, Ingress, handler

ADDRESS = "shop-abcdefgh.workers.localhost"


@pytest.fixture
def identity(tmp_path: Path) -> ServerIdentity:
    return server_identity(tmp_path / "tls")


@pytest.fixture
async def ingress(launcher: Launcher, bundler: Bundler, identity: ServerIdentity) -> AsyncIterator[Ingress]:
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    key_pair = KeyPair(identity.certificate.read_text(), identity.key.read_text())
    made = Ingress(launcher, bundler, secure=SecureListener(listener, key_pair))
    yield made
    await made.close()
    listener.close()


async def serve(ingress: Ingress, *endpoints: str) -> None:
    version = await ingress.version("v1", handler("return new Response(request.url);"))
    route = GatewayRoute("w-1", "shop", (RoutedVersion(version, 10000),), endpoints)
    await ingress.publish(RouteTable((route,)))


def ask(ingress: Ingress, identity: ServerIdentity, host: str, sni: str | None = None) -> httpx.Response:
    """One GET over TLS with this Host and, unless it is the same, another SNI."""
    assert ingress.secure is not None
    port = ingress.secure.listener.getsockname()[1]
    trust = ssl.create_default_context(cafile=identity.ca)
    with httpx.Client(verify=trust, trust_env=False, timeout=DEADLINE_S) as client:
        return client.get(
            f"https://127.0.0.1:{port}/a?b", headers={"Host": host}, extensions={"sni_hostname": sni or host}
        )


@pytest.mark.req("WE-10", "WE-14")
async def test_a_name_leads_to_its_worker_on_both_ways_in_as_long_as_the_table_has_it(
    ingress: Ingress, identity: ServerIdentity
) -> None:
    await serve(ingress, ADDRESS)
    assert ask(ingress, identity, ADDRESS).text == f"https://{ADDRESS}/a?b"
    assert await ingress.text("/a?b", headers={"Host": ADDRESS}) == f"http://{ADDRESS}/a?b"
    assert await ingress.gateway.look_up(ADDRESS) == FoundRoute("w-1", is_served=True)
    await serve(ingress)
    assert ask(ingress, identity, ADDRESS).status_code == 404
    assert (await ingress.client.get("/", headers={"Host": ADDRESS})).status_code == 404
    assert await ingress.gateway.look_up(ADDRESS) is None


@pytest.mark.req("WE-10")
async def test_the_host_header_decides_and_the_name_of_the_handshake_does_not(
    ingress: Ingress, identity: ServerIdentity
) -> None:
    await serve(ingress, ADDRESS)
    for sni in ("localhost", "other.workers.localhost"):
        assert ask(ingress, identity, ADDRESS, sni).text == f"https://{ADDRESS}/a?b"
    assert ask(ingress, identity, "nobody.workers.localhost", ADDRESS).status_code == 404


@pytest.mark.req("WE-06")
async def test_a_look_at_the_table_tells_a_worker_without_versions_from_an_unknown_name(ingress: Ingress) -> None:
    await ingress.publish(RouteTable((GatewayRoute("w-1", "shop", (), (ADDRESS,)),)))
    assert await ingress.gateway.look_up(ADDRESS) == FoundRoute("w-1", is_served=False)
    assert await ingress.gateway.look_up("localhost") is None


@pytest.mark.req("WE-06", "WE-12")
async def test_a_gateway_that_does_not_run_says_nothing_of_a_name(ingress: Ingress) -> None:
    with pytest.raises(BackendUnavailable):
        await ingress.gateway.look_up(ADDRESS)


@pytest.mark.req("WE-13")
async def test_a_successor_takes_both_sockets_and_what_waits_in_them(
    ingress: Ingress, identity: ServerIdentity
) -> None:
    await serve(ingress, ADDRESS)
    assert ask(ingress, identity, ADDRESS).status_code == 200
    killed = ingress.gateway.pid
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    waited = await asyncio.to_thread(ask, ingress, identity, ADDRESS)
    assert waited.text == f"https://{ADDRESS}/a?b"
    assert ingress.gateway.pid != killed
    assert await ingress.text("/", headers={"Host": ADDRESS}) == f"http://{ADDRESS}/"


async def test_clients_that_never_finish_a_handshake_hold_nobody_up(ingress: Ingress, identity: ServerIdentity) -> None:
    await serve(ingress, ADDRESS)
    assert ingress.secure is not None
    address = ingress.secure.listener.getsockname()
    with ExitStack() as stack:
        for said in (b"", b"\x16\x03\x01\x02\x00\x01"):
            for _ in range(100):
                stack.enter_context(socket.create_connection(address)).sendall(said)
        assert ask(ingress, identity, ADDRESS).status_code == 200


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a connection waits and is cut at the end")
async def test_a_drain_shuts_both_ways_in(ingress: Ingress, identity: ServerIdentity) -> None:
    await serve(ingress, ADDRESS)
    assert ask(ingress, identity, ADDRESS).status_code == 200
    await ingress.gateway.drain()
    with pytest.raises(httpx.ConnectError):
        ask(ingress, identity, ADDRESS)
    with pytest.raises(httpx.ConnectError):
        await ingress.client.get("/", headers={"Host": ADDRESS})


async def test_plain_http_on_the_tls_port_gets_no_answer(ingress: Ingress) -> None:
    await serve(ingress)
    assert ingress.secure is not None
    with socket.create_connection(ingress.secure.listener.getsockname()) as plain:
        plain.settimeout(DEADLINE_S)
        plain.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        try:
            said = plain.recv(64)
        except ConnectionResetError:
            said = b""
        assert not said.startswith(b"HTTP/")


async def test_old_versions_of_tls_are_refused(ingress: Ingress, identity: ServerIdentity) -> None:
    await serve(ingress)
    assert ingress.secure is not None
    trust = ssl.create_default_context(cafile=identity.ca)
    trust.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning):
        trust.minimum_version = trust.maximum_version = ssl.TLSVersion.TLSv1_1
    with (
        socket.create_connection(ingress.secure.listener.getsockname()) as plain,
        pytest.raises(ssl.SSLError),
        trust.wrap_socket(plain, server_hostname=ADDRESS),
    ):
        pass


async def test_the_key_is_on_no_command_line_and_in_no_file_that_others_can_read(
    ingress: Ingress, identity: ServerIdentity, tmp_path: Path
) -> None:
    await serve(ingress)
    secret = identity.key.read_text().splitlines()[1]
    told = Path(f"/proc/{ingress.gateway.pid}/cmdline").read_text() + Path(
        f"/proc/{ingress.gateway.pid}/environ"
    ).read_text(errors="replace")
    assert secret not in told
    holders = [path for path in tmp_path.rglob("*") if path.is_file() and secret in path.read_text(errors="replace")]
    assert {path.suffix for path in holders} == {".key", ".capnp"}
    for path in holders:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert secret not in repr(ingress.secure)
