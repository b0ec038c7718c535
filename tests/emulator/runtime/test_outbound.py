"""Where `fetch` of app code may go, by every spelling of an address and through redirects, on real workerd."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from emulator.runtime.kernels import OutboundMode, OutboundPolicy
from host.model.json import JsonValue
from tests.emulator.runtime.conftest import Pools, ScriptedHost

pytestmark = pytest.mark.req("MW-16")

OWN = "own listeners are never reachable"
PUBLIC_ONLY = "only public addresses are reachable"
LOOPBACK = ("127.0.0.1", "127.0.1.1")


class Site:
    """A plain HTTP listener on the loopback interface that counts what reaches it."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.port = 0
        self.location = ""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.paths.append(head.split(b" ", 2)[1].decode())
        status = f"302 Found\r\nlocation: {self.location}" if self.location else "200 OK"
        writer.write(f"HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 4\r\n\r\nsite".encode())
        await writer.drain()
        writer.close()


@asynccontextmanager
async def site() -> AsyncIterator[Site]:
    made = Site()
    server = await asyncio.start_server(made.answer, ["127.0.0.1", "::1"], 0)
    made.port = server.sockets[0].getsockname()[1]
    if len(server.sockets) > 1 and server.sockets[1].getsockname()[1] != made.port:
        server.close()
        server = await asyncio.start_server(made.answer, "127.0.0.1", made.port)
    async with server:
        yield made


async def fetched(host: ScriptedHost, urls: list[str]) -> list[JsonValue]:
    """For each URL the answer's text, or name and message of what `fetch` rejected with."""
    run = await host.run(
        "const got = []; for (const url of event.params.urls) got.push(await fetch(url).then((r) => r.text(),"
        " (e) => [e.name, e instanceof TypeError, e.message])); return { got };",
        params=json.dumps({"urls": urls}),
    )
    result = await run.result()
    await run.started.stop()
    assert isinstance(result, dict) and isinstance(result["got"], list)
    return result["got"]


def assert_refused(answer: JsonValue, rule: str) -> None:
    assert isinstance(answer, list), answer
    name, is_type_error, message = answer
    assert (name, is_type_error) == ("TypeError", True)
    assert rule in str(message), message


def spellings(port: int) -> list[str]:
    """Ways to write this machine's loopback interface."""
    hosts = [
        "127.0.0.1", "127.0.0.1.", "127.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "127.8.9.10", "0.0.0.0", "0",
        "localhost", "LOCALHOST.", "api.localhost", "[::1]", "[0:0:0:0:0:0:0:1]", "[::]", "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]", "[::127.0.0.1]", "%31%32%37.0.0.1", "①②⑦.0.0.1",
    ]  # fmt: skip
    return [f"http://{host}:{port}/" for host in hosts]


@pytest.mark.parametrize("mode", list(OutboundMode))
async def test_the_hosts_own_ports_are_reachable_by_no_spelling_in_no_mode(pools: Pools, mode: OutboundMode) -> None:
    async with site() as own:
        allow = ("localhost", f"127.0.0.1:{own.port}", "[::1]")
        host = await pools.open(outbound=OutboundPolicy(mode, allow=allow, own_ports=(own.port,)))
        for answer in await fetched(host, spellings(own.port)):
            assert_refused(answer, OWN)
        assert own.paths == []


async def test_local_addresses_are_reached_in_local_mode_only(pools: Pools) -> None:
    async with site() as other:
        urls = [f"http://127.0.0.1:{other.port}/a", f"http://localhost:{other.port}/b"]
        public = await pools.open(outbound=OutboundPolicy(own_ports=(1,)))
        for answer in await fetched(public, [*urls, *spellings(other.port), "http://10.0.0.1/", "http://[fe80::1]/"]):
            assert_refused(answer, PUBLIC_ONLY)
        nothing = await pools.open(outbound=OutboundPolicy(OutboundMode.NONE))
        for answer in await fetched(nothing, [*urls, "http://example.invalid/", "http://1.1.1.1/"]):
            assert_refused(answer, "switched off")
        assert other.paths == []
        local = await pools.open(outbound=OutboundPolicy(OutboundMode.LOCAL, own_ports=(1,)))
        assert await fetched(local, urls) == ["site", "site"]
        assert other.paths == ["/a", "/b"]
        assert_refused((await fetched(local, ["http://169.254.169.254/"]))[0], PUBLIC_ONLY)


async def test_a_listed_address_is_reached_in_any_mode_and_its_neighbour_is_not(pools: Pools) -> None:
    async with site() as listed, site() as neighbour:
        policy = OutboundPolicy(OutboundMode.NONE, allow=(f"127.0.0.1:{listed.port}",))
        host = await pools.open(outbound=policy)
        answers = await fetched(host, [f"http://127.0.0.1:{port}/" for port in (listed.port, neighbour.port)])
        assert answers[0] == "site"
        assert_refused(answers[1], "switched off")
        assert neighbour.paths == []


async def test_each_hop_of_a_redirect_is_judged(pools: Pools) -> None:
    async with site() as own, site() as other:
        other.location = f"http://127.0.0.1:{own.port}/secret"
        host = await pools.open(outbound=OutboundPolicy(OutboundMode.LOCAL, own_ports=(own.port,)))
        [answer] = await fetched(host, [f"http://127.0.0.1:{other.port}/"])
        assert_refused(answer, OWN)
        assert (other.paths, own.paths) == (["/"], [])


def loopback_names() -> set[str]:
    """Names of this machine's hosts file that stand for the loopback interface and do not say so."""
    lines = (line.split("#")[0].split() for line in Path("/etc/hosts").read_text("utf-8").splitlines())
    named = {name for address, *names in filter(None, lines) for name in names if address in ("::1", *LOOPBACK)}
    return {name for name in named if name != "localhost" and not name.endswith(".localhost")}


async def test_a_name_that_resolves_to_this_machine_leads_nowhere(pools: Pools) -> None:
    """The resolver's answer is judged, not the name, and no mode changes that."""
    names = loopback_names()
    if not names:
        pytest.skip("no name but localhost stands for this machine here")
    async with site() as own, site() as other:
        policy = OutboundPolicy(OutboundMode.LOCAL, allow=tuple(names), own_ports=(own.port,))
        host = await pools.open(outbound=policy)
        urls = [f"http://{name}:{port}/" for name in names for port in (own.port, other.port)]
        for answer in await fetched(host, urls):
            assert_refused(answer, "failed")
        assert own.paths == other.paths == []


async def test_a_failed_connection_is_a_type_error_that_names_the_address(pools: Pools) -> None:
    host = await pools.open(outbound=OutboundPolicy(OutboundMode.LOCAL))
    async with site() as gone:
        port = gone.port
    [answer] = await fetched(host, [f"http://127.0.0.1:{port}/"])
    assert_refused(answer, f"fetch of 127.0.0.1:{port} failed")


async def test_a_websocket_passes_the_same_gate(pools: Pools) -> None:
    async with site() as own:
        host = await pools.open(outbound=OutboundPolicy(OutboundMode.LOCAL, own_ports=(own.port,)))
        run = await host.run(
            f"const w = new WebSocket('ws://127.0.0.1:{own.port}/');"
            "return { got: await new Promise((r) => { w.onopen = () => r('open'); w.onerror = () => r('error'); }) };"
        )
        assert await run.result() == {"got": "error"}
        assert own.paths == []
