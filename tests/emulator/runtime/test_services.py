"""Service bindings on real workerd: from HTTP handlers in the gateway, and from execution contexts through it."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from emulator.runtime.kernels import KernelSettings
from emulator.runtime.pool import PoolSettings, RunnerPool
from emulator.runtime.process import Launcher
from emulator.runtime.routes import GatewayRoute, RoutedVersion, RouteTable
from host.model.time import ControlledClock, RealTime
from host.ports import BindingRecord, VersionRecord
from tests.emulator.runtime.conftest import NOW_MS, NoCalls, ScriptedHost
from tests.emulator.runtime.gateways import Ingress, handler

BACK = (BindingRecord("BACK", "service", "back"),)
ECHO = (
    "const seen = { url: request.url, method: request.method, body: await request.text(), env: Object.keys(env),"
    "ctx: Reflect.ownKeys(ctx), headers: [...request.headers.keys()].filter((k) => k.startsWith('takohost') || k === 'upgrade') };"
    "return Response.json(seen, { status: 207, headers: { 'x-back': '1', 'takohost-started': 'no' } });"
)
REFUSED = "env.BACK.fetch('http://x/').then(() => 'resolved', (e) => e instanceof Error ? e.name : 'no Error')"


async def serve(ingress: Ingress, front: str, *backs: str, share: int | None = None) -> None:
    """A Worker `front` with a service binding to the Worker `back`, whose Versions have these `fetch` bodies."""
    caller = await ingress.version("f1", handler(front), bindings=BACK)
    versions = [await ingress.version(f"b{number}", handler(body)) for number, body in enumerate(backs)]
    await publish(ingress, caller, versions)


async def publish(ingress: Ingress, caller: VersionRecord, backs: list[VersionRecord]) -> None:
    front = GatewayRoute("front", "front", (RoutedVersion(caller, 10000),))
    back = GatewayRoute("back", "back", tuple(RoutedVersion(each, 10000 // len(backs)) for each in backs))
    await ingress.publish(RouteTable((front, back), "front"))


@pytest.mark.req("MW-20", "MW-21")
async def test_a_service_call_reaches_the_worker_by_uid_whatever_the_url_says(ingress: Ingress) -> None:
    call = (
        "const r = await env.BACK.fetch('https://other.example:8443/a%2Fb?q=1', { method: 'PUT', body: 'hi', headers: "
        "{ upgrade: 'websocket', 'takohost-target': 'front', 'takohost-started': 'no' } });"
        "return Response.json([r.status, r.headers.get('x-back'), await r.json(), Object.keys(env), Object.isFrozen(env.BACK),"
        "Reflect.ownKeys(env.BACK), Object.getPrototypeOf(env.BACK)]);"
    )
    await serve(ingress, call, ECHO)
    answer = await ingress.json()
    assert isinstance(answer, list)
    status, header, seen, names, *shape = answer
    assert (status, header, names, shape) == (207, "1", ["BACK"], [True, ["fetch"], None])
    assert isinstance(seen, dict)
    assert (seen["url"], seen["method"], seen["body"]) == ("https://other.example:8443/a%2Fb?q=1", "PUT", "hi")
    assert (seen["env"], seen["ctx"]) == ([], ["waitUntil"])
    assert isinstance(seen["headers"], list)
    assert "upgrade" not in seen["headers"]


@pytest.mark.req("MW-20")
async def test_a_request_object_can_be_given(ingress: Ingress) -> None:
    front = "return env.BACK.fetch(new Request(request, { headers: { 'x-mine': 'yes' } }));"
    await serve(
        ingress, front, "return new Response(request.method + request.headers.get('x-mine') + await request.text());"
    )
    assert (await ingress.client.post("/", content=b"!")).text == "POSTyes!"


@pytest.mark.req("MW-20")
async def test_the_callees_error_is_a_resolved_500(ingress: Ingress) -> None:
    await serve(
        ingress,
        "const r = await env.BACK.fetch('http://x/'); return Response.json([r.status, await r.text()]);",
        "throw new Error('hidden')",
    )
    assert await ingress.json() == [500, "Internal Server Error\n"]


@pytest.mark.req("MW-20")
async def test_only_a_call_that_cannot_be_started_rejects(ingress: Ingress) -> None:
    caller = await ingress.version("f1", handler(f"return new Response(await {REFUSED});"), bindings=BACK)
    front = GatewayRoute("front", "front", (RoutedVersion(caller, 10000),))
    lost = VersionRecord("b0", "back", caller.code_digest, {}, (), ("fetch",), secrets=None)
    silent = VersionRecord("b1", "back", caller.code_digest, {}, (), ())
    for versions, told in (
        ((), "backend_unavailable"),
        ((RoutedVersion(lost, 10000),), "backend_unavailable"),
        ((RoutedVersion(silent, 10000),), "resolved"),
    ):
        await ingress.publish(RouteTable((front, GatewayRoute("back", "back", versions)), "front"))
        assert await ingress.text() == told
    await ingress.publish(RouteTable((front,), "front"))
    assert await ingress.text() == "backend_unavailable"


@pytest.mark.req("MW-20", "WD-03")
async def test_each_service_call_picks_a_version_by_weight(ingress: Ingress) -> None:
    front = "const all = await Promise.all(Array.from({ length: 200 }, () => env.BACK.fetch('http://x/').then((r) => r.text()))); return Response.json(all);"
    await serve(ingress, front, "return new Response('a')", "return new Response('b')")
    shares = Counter(str(each) for each in await ingress.json())  # type: ignore[union-attr]
    assert shares["a"] + shares["b"] == 200
    assert 60 <= shares["a"] <= 140


@pytest.mark.req("MW-20")
async def test_bodies_stream_both_ways(ingress: Ingress) -> None:
    front = "return env.BACK.fetch('http://x/', { method: 'POST', body: request.body });"
    await serve(ingress, front, "return new Response(request.body);")
    reader, writer = await asyncio.open_connection("127.0.0.1", ingress.port)
    writer.write(b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
    assert await asyncio.wait_for(reader.readuntil(b"first"), 20)
    writer.write(b"6\r\nsecond\r\n0\r\n\r\n")
    assert await asyncio.wait_for(reader.readuntil(b"second"), 20)
    writer.close()


@pytest.mark.req("MW-21")
async def test_no_upgrade_is_forwarded_or_made(ingress: Ingress) -> None:
    back = (
        "if (request.url.endsWith('/make')) { const [a, b] = Object.values(new WebSocketPair()); b.accept();"
        "return new Response(null, { status: 101, webSocket: a }); } return new Response(String(request.headers.get('upgrade')));"
    )
    front = (
        "const init = { headers: { upgrade: 'websocket' } }; const plain = await env.BACK.fetch('http://x/', init);"
        "const made = await env.BACK.fetch('http://x/make', init);"
        "return Response.json([await plain.text(), made.status, made.webSocket === null]);"
    )
    await serve(ingress, front, back)
    assert await ingress.json() == ["null", 500, True]


@pytest.mark.req("MW-14")
async def test_the_hosts_line_of_a_request_that_broke_names_worker_and_version(
    ingress: Ingress, tmp_path: Path
) -> None:
    back = (
        "request.headers.set('upgrade', 'websocket'); const [a, b] = Object.values(new WebSocketPair()); b.accept();"
        "return new Response(null, { status: 101, webSocket: a });"
    )
    await serve(ingress, "return env.BACK.fetch('http://x/');", back)
    assert (await ingress.client.get("/")).status_code == 500
    log = tmp_path / "log" / "workerd.log"
    async with asyncio.timeout(20):
        while "could not be served" not in log.read_text():
            await asyncio.sleep(0.01)
    assert "Worker app, Version b0: a request could not be served: its isolate broke\n" in log.read_text()


@pytest.mark.req("MW-15", "MW-21")
async def test_no_url_of_a_service_call_speaks_to_the_isolate_itself(ingress: Ingress) -> None:
    front = (
        "const texts = []; for (const url of ['http://running/load', 'http://running/running', 'http://running/call/fetch'])"
        "texts.push(await (await env.BACK.fetch(url)).text()); return Response.json(texts);"
    )
    await serve(ingress, front, "return new Response('app');")
    assert await ingress.json() == ["app", "app", "app"]


@pytest.mark.req("MW-20")
async def test_an_abort_is_the_callers_own_and_a_bad_url_its_mistake(ingress: Ingress) -> None:
    front = (
        "const names = []; const note = (e) => names.push(e.name); const stop = AbortSignal.timeout(20);"
        "await env.BACK.fetch('http://x/', { signal: stop }).catch(note); await env.BACK.fetch('no url').catch(note);"
        "return Response.json(names);"
    )
    await serve(ingress, front, "await scheduler.wait(20000); return new Response('late');")
    assert await ingress.json() == ["TimeoutError", "TypeError"]


KEY_LENGTH = len("01234567-89ab-cdef-0123-456789abcdef/")
"""Of what the header begins with inside an isolate."""
CALLS_ITSELF = (
    "const depth = Number(new URL(request.url).pathname.slice(1));"
    "const forged = { headers: { 'takohost-depth': '0' } };"
    "try { return await env.BACK.fetch('http://x/' + (depth + 1), forged); }"
    "catch (e) { return new Response(depth + ' ' + e.name + ' ' + request.headers.get('takohost-depth')); }"
)


@pytest.mark.req("MW-20")
@pytest.mark.parametrize("ring", [1, 2, 3])
async def test_calls_in_a_ring_end_where_no_further_one_can_be_started(ingress: Ingress, ring: int) -> None:
    """Nothing that a client or the app sends along makes the way shorter."""
    routes = []
    for at in range(ring):
        binding = (BindingRecord("BACK", "service", f"w{(at + 1) % ring}"),)
        version = await ingress.version(f"v{at}", handler(CALLS_ITSELF + f" // {at}\n"), bindings=binding)
        routes.append(GatewayRoute(f"w{at}", f"w{at}", (RoutedVersion(version, 10000),)))
    await ingress.publish(RouteTable(tuple(routes), "w0"))
    assert await ingress.text("/0") == "32 backend_unavailable null"
    for forged in ("-9", KEY_LENGTH * "x" + "31", KEY_LENGTH * "x" + "-9"):
        answer = await ingress.client.get("/0", headers={"takohost-depth": forged})
        assert answer.text == "32 backend_unavailable null"


@pytest.mark.req("MW-20")
async def test_thousands_of_calls_at_once_are_all_answered(ingress: Ingress) -> None:
    front = (
        "const all = Array.from({ length: 3000 }, () => env.BACK.fetch('http://x/').then((r) => r.text()));"
        "return Response.json(new Set(await Promise.all(all)).size);"
    )
    await serve(ingress, front, "return new Response('a')")
    first = ingress.gateway.pid
    assert await ingress.json() == 1
    assert ingress.gateway.pid == first


@pytest.fixture
async def contexts(ingress: Ingress, launcher: Launcher, tmp_path: Path) -> AsyncIterator[ScriptedHost]:
    """Runners whose kernels know the gateway of `ingress`."""
    kernel = KernelSettings(tmp_path / "code", services=ingress.services_path)
    calls = NoCalls()
    pool = RunnerPool(launcher, kernel, PoolSettings(2), calls, ControlledClock.frozen(NOW_MS), RealTime())
    await pool.open()
    yield ScriptedHost(pool, tmp_path / "code", calls)
    await pool.close()


@pytest.mark.req("MW-20", "MW-21")
async def test_a_context_calls_through_the_gateway(ingress: Ingress, contexts: ScriptedHost) -> None:
    await serve(ingress, "return new Response();", ECHO)
    run = await contexts.run(
        "const r = await this.env.BACK.fetch('https://other.example:8443/a%2Fb?q=1', { method: 'PUT', body: 'hi', headers: "
        "{ upgrade: 'websocket', 'takohost-target': 'front' }, cf: { targetUid: 'front', headers: [], method: 'GET' } });"
        "const seen = await r.json(); return { status: r.status, kept: [...r.headers.keys()].filter((k) => k.startsWith('takohost')), seen };",
        bindings=BACK,
    )
    seen = '"body":"hi","ctx":["waitUntil"],"env":[],"headers":["takohost-target"],"method":"PUT","url":"https://other.example:8443/a%2Fb?q=1"'
    assert await run.ended == ["return", '{"kept":[],"seen":{' + seen + '},"status":207}']


@pytest.mark.req("MW-20")
async def test_what_a_context_calls_fails_by_the_same_rules(ingress: Ingress, contexts: ScriptedHost) -> None:
    await serve(ingress, "return new Response();", "throw new Error('hidden')")
    run = await contexts.run("return { status: (await this.env.BACK.fetch('http://x/')).status }", bindings=BACK)
    assert await run.ended == ["return", '{"status":500}']
    gone = (BindingRecord("BACK", "service", "gone"),)
    run = await contexts.run(
        "return { name: await this.env.BACK.fetch('http://x/').catch((e) => e.name) }", bindings=gone
    )
    assert await run.ended == ["return", '{"name":"backend_unavailable"}']
