"""Deadlines, bounds and the end of connections."""

import asyncio
import socket
import ssl
from dataclasses import replace
from pathlib import Path

import pytest

from emulator.compose.authority import ServerIdentity, server_identity
from tests.emulator.front.fronts import HOST, QUICK, Front, cut, serving, statuses

GET = b"GET /ok HTTP/1.1\r\n" + HOST + b"\r\n"
LAST = b"GET /ok HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"


@pytest.fixture(scope="module")
def identity(tmp_path_factory: pytest.TempPathFactory) -> ServerIdentity:
    return server_identity(tmp_path_factory.mktemp("tls"))


def server_side(identity: ServerIdentity) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(identity.certificate, identity.key)
    return context


async def test_a_slow_head_is_refused_at_its_deadline(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as front:
        client = await front.connect()
        for byte in b"GET / HT":
            client.writer.write(bytes((byte,)))
            await asyncio.sleep(0.01)
        assert statuses(await client.rest()) == [408]
    assert "head took longer" in caplog.text


async def test_an_idle_connection_is_closed_without_an_answer() -> None:
    async with serving() as front:
        client = await front.connect()
        client.writer.write(GET)
        assert (await client.answer())[0] == 200
        assert await client.rest() == b""
        assert await (await front.connect()).rest() == b""


async def test_a_client_that_takes_nothing_is_cut_off() -> None:
    async with serving() as front:
        client = await front.connect()
        client.writer.write(b"GET /flood HTTP/1.1\r\n" + HOST + b"\r\n")
        await asyncio.sleep(2 * QUICK.write_s)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await client.reader.readexactly(50_000_000)


async def test_more_connections_than_the_bound_wait_their_turn() -> None:
    async with serving(replace(QUICK, connections=2, idle_s=5.0)) as front:
        held = [await front.connect() for _ in range(2)]
        for client in held:
            client.writer.write(GET)
            await client.answer()
        waiting = await front.connect()
        waiting.writer.write(LAST)
        held[0].writer.close()
        assert statuses(await waiting.rest()) == [200]


async def test_a_handshake_that_never_ends_holds_nothing_for_long(
    identity: ServerIdentity, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(replace(QUICK, connections=1), server_side(identity)) as front:
        for noise in (b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"):
            with socket.create_connection(("127.0.0.1", front.port)) as half:
                half.sendall(noise)
                client = await front.connect(ssl.create_default_context(cafile=identity.ca))
                client.writer.write(LAST)
                assert statuses(await client.rest()) == [200]
    assert caplog.text == ""


async def test_a_connection_broken_at_any_point_leaves_no_trace(
    identity: ServerIdentity, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tls=server_side(identity)) as front:
        for sent in (b"", b"GET", GET, GET[:-2], b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 9\r\n\r\nabc"):
            client = await front.connect(ssl.create_default_context(cafile=identity.ca))
            client.writer.write(sent)
            await client.writer.drain()
            cut(client.writer)
        again = await front.connect(ssl.create_default_context(cafile=identity.ca))
        again.writer.write(LAST)
        assert statuses(await again.rest()) == [200]
    assert caplog.text == ""


@pytest.mark.req("HA-14")
async def test_a_stop_ends_idle_connections_and_lets_requests_finish() -> None:
    async with serving(replace(QUICK, idle_s=60.0)) as front:
        idle, busy = await front.connect(), await front.connect()
        idle.writer.write(GET)
        await idle.answer()
        front.app.reached.clear()
        busy.writer.write(b"GET /gate HTTP/1.1\r\n" + HOST + b"\r\n")
        await front.app.reached.wait()

        stopping = asyncio.create_task(stop(front))
        assert await idle.rest() == b""
        with pytest.raises(ConnectionRefusedError):
            await front.connect()
        front.app.gate.set()
        assert (await busy.answer())[0] == 200
        assert await busy.rest() == b""
        async with asyncio.timeout(QUICK.drain_s):
            await stopping


async def test_a_stop_does_not_wait_for_ever() -> None:
    async with serving(replace(QUICK, drain_s=0.1)) as front:
        busy = await front.connect()
        busy.writer.write(b"GET /gate HTTP/1.1\r\n" + HOST + b"\r\n")
        await front.app.reached.wait()
        async with asyncio.timeout(2):
            await stop(front)


async def stop(front: Front) -> None:
    front.serving.cancel()
    await asyncio.wait({front.serving})
    await front.listener.drain()


def test_the_identity_is_found(identity: ServerIdentity) -> None:
    assert Path(identity.ca).exists()
