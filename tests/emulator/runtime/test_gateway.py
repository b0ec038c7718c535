"""The gateway on real workerd: weights, names, its successors, and the stop of a Version."""

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path

import httpx
import pytest

from emulator.runtime.addresses import worker_label
from emulator.runtime.process import Launcher
from emulator.runtime.routes import GatewayRoute, RoutedVersion, RouteTable
from host.ports import VersionRecord
from tests.emulator.runtime.bundles import Bundler
from tests.emulator.runtime.gateways import Ingress, handler, queued_request

STREAM = (
    "const t = new TransformStream(); const w = t.writable.getWriter(); let n = 0;"
    "const tick = new TextEncoder().encode('tick');"
    "ctx.waitUntil((async () => { for (;;) { await w.write(tick); await scheduler.wait(2); } })());"
    "return new Response(t.readable);"
)


POST = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    """A chunk of a chunked body; the empty one ends it."""
    return b"%x\r\n%s\r\n" % (len(data), data)


async def named_version(ingress: Ingress, uid: str) -> VersionRecord:
    return await ingress.version(uid, handler(f"return new Response('{uid}');"))


@pytest.mark.req("WD-01", "WD-03")
async def test_requests_are_shared_out_by_weight(ingress: Ingress) -> None:
    await ingress.serve((await named_version(ingress, "a"), 9000), (await named_version(ingress, "b"), 1000))
    shares = Counter(await asyncio.gather(*(ingress.text() for _ in range(150))))
    assert 115 <= shares["a"] <= 149
    assert shares["a"] + shares["b"] == 150


@pytest.mark.req("WD-04")
async def test_every_request_after_a_publish_goes_by_the_new_weights(ingress: Ingress) -> None:
    a, b = await named_version(ingress, "a"), await named_version(ingress, "b")
    await ingress.serve((a, 10000))
    for version in (b, a, b):
        await ingress.serve((version, 10000))
        assert {await ingress.text() for _ in range(10)} == {version.version_uid}


@pytest.mark.req("WD-03", "WD-04")
async def test_a_request_keeps_its_version_through_a_change_of_weights(ingress: Ingress) -> None:
    await ingress.serve((await ingress.version("a", handler("return new Response(request.body);")), 10000))
    reader, writer = await asyncio.open_connection("127.0.0.1", ingress.port)
    writer.write(POST + chunk(b"first"))
    assert await asyncio.wait_for(reader.readuntil(b"first"), 20)
    await ingress.serve((await named_version(ingress, "b"), 10000))
    assert await ingress.text() == "b"
    writer.write(chunk(b"other") + chunk(b""))
    assert b"other" in await asyncio.wait_for(reader.readuntil(b"0\r\n\r\n"), 20)
    writer.close()


async def test_a_worker_without_a_deployment_answers_503(ingress: Ingress) -> None:
    await ingress.serve()
    response = await ingress.client.get("/")
    assert (response.status_code, response.text) == (503, "The Worker app has no deployment.\n")


@pytest.mark.req("MW-10", "WV-15")
async def test_a_version_without_fetch_answers_404(ingress: Ingress) -> None:
    await ingress.serve((await ingress.version("a", {"main.js": "export default {};"}), 10000))
    assert (await ingress.client.get("/")).status_code == 404


@pytest.mark.req("MW-14")
@pytest.mark.parametrize("name", ("a b", "a:99999", "a:x", "[a]", "%00", "a,b:c"))
async def test_a_host_that_is_none_is_the_clients_fault(ingress: Ingress, tmp_path: Path, name: str) -> None:
    await ingress.serve_handler("return new Response();")
    assert (await ingress.client.get("/", headers={"host": name})).status_code == 400
    await ingress.close()
    assert (tmp_path / "log" / "workerd.log").read_text() == ""


async def test_workers_answer_under_their_own_names(ingress: Ingress) -> None:
    a, b = await named_version(ingress, "a"), await named_version(ingress, "b")
    routes = [GatewayRoute(uid, "My App", (RoutedVersion(v, 1),)) for uid, v in (("u1", a), ("u2", b))]
    await ingress.publish(RouteTable(tuple(routes)))
    for route, answer in zip(routes, ("a", "b"), strict=True):
        assert await ingress.text(headers={"host": f"{route.hostname.upper()}:{ingress.port}"}) == answer
    unknown = await ingress.client.get("/", headers={"host": f"nobody.workers.localhost:{ingress.port}"})
    assert unknown.status_code == 404
    assert all(f"http://{route.hostname}:{ingress.port}/" in unknown.text for route in routes)
    assert (await ingress.client.get("/")).status_code == 404
    await ingress.publish(RouteTable((routes[0], GatewayRoute("u3", "Other", ())), "My App"))
    assert await ingress.text(headers={"host": "localhost"}) == "a"


def test_a_label_is_one_short_dns_label() -> None:
    assert worker_label("Order_Flow.2", "u") == worker_label("order--flow 2", "u")
    assert worker_label("x", "u1") != worker_label("x", "u2")
    for name in ("", "日本", "-", "x" * 200, "A-" * 100):
        label = worker_label(name, "u")
        assert len(label) <= 49
        assert label.strip("-") == label
        assert set(label) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")


@pytest.mark.req("MW-14")
async def test_bodies_stream_both_ways(ingress: Ingress) -> None:
    await ingress.serve_handler("return new Response(request.body);")
    reader, writer = await asyncio.open_connection("127.0.0.1", ingress.port)
    writer.write(POST)
    for text in (b"first", b"other"):
        writer.write(chunk(text))
        assert text in await asyncio.wait_for(reader.readuntil(text), 20)
    writer.write(chunk(b""))
    assert await asyncio.wait_for(reader.readuntil(b"0\r\n\r\n"), 20)
    writer.close()


async def test_a_queued_connection_is_answered_by_the_successor(ingress: Ingress) -> None:
    await ingress.serve_handler("return new Response('here');")
    assert await ingress.text() == "here"
    first = ingress.gateway.pid
    assert first is not None
    os.kill(first, signal.SIGSTOP)
    connection = queued_request(ingress.port)
    os.kill(first, signal.SIGKILL)
    reader, writer = await asyncio.open_connection(sock=connection)
    answer = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    assert answer.startswith(b"HTTP/1.1 200") and answer.endswith(b"here")
    assert ingress.gateway.pid not in (None, first)


async def test_a_successor_goes_by_the_weights_published_while_it_started(ingress: Ingress) -> None:
    await ingress.serve((await named_version(ingress, "a"), 10000))
    assert ingress.gateway.pid is not None
    os.kill(ingress.gateway.pid, signal.SIGKILL)
    await ingress.serve((await named_version(ingress, "b"), 10000))
    assert await ingress.text() == "b"


async def test_a_spinning_handler_is_killed_and_others_are_answered(launcher: Launcher, bundler: Bundler) -> None:
    ingress = Ingress(launcher, bundler, cpu_limit_s=0.2)
    await ingress.serve_handler("if (request.url.endsWith('/spin')) for (;;); return new Response('fine');")
    assert await ingress.text() == "fine"
    spinning = asyncio.create_task(ingress.client.get("/spin"))
    with pytest.raises(httpx.TransportError):
        await spinning
    assert await ingress.text() == "fine"
    await ingress.close()


@pytest.mark.req("WD-04", "WD-07")
async def test_retiring_a_version_ends_its_streams_with_evidence_and_leaves_the_others(ingress: Ingress) -> None:
    a, b = await ingress.version("a", handler(STREAM)), await ingress.version("b", handler(";" + STREAM))
    await ingress.serve((a, 10000))
    async with ingress.client.stream("GET", "/") as left:
        ticks = left.aiter_raw()
        await anext(ticks)
        await ingress.serve((b, 10000))
        async with ingress.client.stream("GET", "/") as stays:
            others = stays.aiter_raw()
            await anext(others)
            evidence = await ingress.gateway.retire("a")
            assert (evidence.kind, evidence.pid) == ("ack", ingress.gateway.pid)
            with pytest.raises(httpx.RemoteProtocolError):
                async for _ in ticks:
                    pass
            await anext(others)


@pytest.mark.req("WD-07")
async def test_a_retired_version_serves_again_once_it_is_back(ingress: Ingress) -> None:
    a = await named_version(ingress, "a")
    await ingress.serve((a, 10000))
    await ingress.serve()
    await ingress.gateway.retire("a")
    await ingress.gateway.retire("a")
    await ingress.serve((a, 10000))
    assert await ingress.text() == "a"


async def test_a_large_bundle_is_given_the_time_to_load(launcher: Launcher, bundler: Bundler) -> None:
    ingress = Ingress(launcher, bundler, cpu_limit_s=0.2)
    functions = "".join(f"function f{n}(a) {{ return (b => a + b * {n})({n}); }}\n" for n in range(60_000))
    await ingress.serve_handler("return new Response('served');", functions)
    first = ingress.gateway.pid
    assert await ingress.text() == "served"
    assert ingress.gateway.pid == first
    await ingress.close()


@pytest.mark.req("WV-09")
async def test_a_version_executes_until_its_handlers_and_wait_until_have_settled(ingress: Ingress) -> None:
    body = (
        "if (request.url.endsWith('/release')) { release(); return new Response('released'); }"
        "ctx.waitUntil(new Promise((resolve) => { release = resolve; })); return new Response('answered');"
    )
    await ingress.serve_handler(body, "let release;")
    assert not await ingress.gateway.is_executing("v1")
    assert await ingress.text() == "answered"
    assert await ingress.gateway.is_executing("v1")
    assert await ingress.text("/release") == "released"
    async with asyncio.timeout(20):
        while await ingress.gateway.is_executing("v1"):
            await asyncio.sleep(0.002)
