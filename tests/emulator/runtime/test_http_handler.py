"""What a fetch handler of an app is given, may do and may return, on real workerd."""

import asyncio

import pytest

from host.model.json import JsonValue
from host.ports import BindingRecord
from tests.emulator.runtime.gateways import Ingress, handler

WORKFLOW = (BindingRecord("FLOW", "workflow", "workflow-1"),)
VARS: dict[str, JsonValue] = {"LIMITS": {"max": 3, "list": [1, None, "x"]}, "a.b-c": "dotted", "__": False}


@pytest.mark.req("MW-15", "DW-22")
async def test_env_has_exactly_the_declared_keys(ingress: Ingress) -> None:
    body = (
        "const { FLOW, ...vars } = env; return Response.json({ keys: Reflect.ownKeys(env), shown: Object.keys(env), vars,"
        "proto: Object.getPrototypeOf(env) === Object.prototype, flow: Reflect.ownKeys(FLOW),"
        "bare: Object.getPrototypeOf(FLOW), frozen: Object.isFrozen(FLOW) });"
    )
    await ingress.serve_handler(body, variables=VARS, bindings=WORKFLOW)
    assert await ingress.json() == {
        "keys": [*VARS, "FLOW"],
        "shown": [*VARS, "FLOW"],
        "vars": VARS,
        "proto": True,
        "flow": ["create", "get"],
        "bare": None,
        "frozen": True,
    }


@pytest.mark.req("MW-15")
async def test_vars_are_fresh_for_each_request(ingress: Ingress) -> None:
    body = (
        "const seen = [env.LIMITS.max, Object.keys(env)]; env.LIMITS.max = 99; env.more = 1;return Response.json(seen);"
    )
    await ingress.serve_handler(body, variables={"LIMITS": {"max": 3}})
    for _ in range(2):
        assert await ingress.json() == [3, ["LIMITS"]]


@pytest.mark.req("MW-14", "MW-15")
async def test_ctx_is_wait_until_and_nothing_else(ingress: Ingress) -> None:
    body = (
        "return Response.json([Reflect.ownKeys(ctx), Object.getPrototypeOf(ctx), Object.isFrozen(ctx),"
        "arguments.length, typeof this.fetch]);"
    )
    await ingress.serve_handler(body)
    assert await ingress.json() == [["waitUntil"], None, True, 3, "function"]


@pytest.mark.req("MW-14")
async def test_an_expired_ctx_fails_and_a_live_one_does_not(ingress: Ingress) -> None:
    body = (
        "if (request.url.endsWith('/save')) { saved = ctx; return new Response('ok'); }"
        "if (request.url.endsWith('/use')) {"
        "  try { saved.waitUntil(1); return new Response('live'); } catch (e) { return new Response(e.name); } }"
        "let n = 0; return new Response(new ReadableStream({ async pull(c) { await scheduler.wait(1);"
        "  try { ctx.waitUntil(1); c.enqueue(new TextEncoder().encode('x')); } catch (e) { c.error(e); }"
        "  if (++n === 3) c.close(); } }));"
    )
    await ingress.serve_handler(body, "let saved;")
    assert await ingress.text("/save") == "ok"
    assert await ingress.text("/use") == "context_expired"
    assert await ingress.text("/stream") == "xxx"


@pytest.mark.req("MW-14")
async def test_wait_until_goes_on_after_the_answer_and_its_rejection_changes_nothing(ingress: Ingress) -> None:
    body = (
        "if (request.url.endsWith('/done')) return Response.json(done);"
        "ctx.waitUntil(Promise.reject(new Error('lost'))); ctx.waitUntil(scheduler.wait(5).then(() => { done += 1; }));"
        "return new Response('answered');"
    )
    await ingress.serve_handler(body, "let done = 0;")
    assert await ingress.text() == "answered"
    async with asyncio.timeout(20):
        while await ingress.json("/done") != 1:
            await asyncio.sleep(0.002)


FAILURES = [
    "throw new Error('secret');",
    "return { status: 200 };",
    "return undefined;",
    "return Object.create(new Response('x'));",
    "return new Promise((_, reject) => reject('secret'));",
    "const r = new Response('x'); await r.text(); return r;",
    "throw { get message() { throw new Error('secret') } };",
]


@pytest.mark.req("MW-14")
@pytest.mark.parametrize("body", FAILURES)
async def test_failures_are_a_plain_500_without_internals(ingress: Ingress, body: str) -> None:
    await ingress.serve_handler(body)
    response = await ingress.client.get("/")
    assert (response.status_code, response.text) == (500, "Internal Server Error\n")


@pytest.mark.req("MW-10")
async def test_only_the_own_fetch_of_the_default_export_is_called(ingress: Ingress) -> None:
    source = "class Base { fetch() { return new Response('inherited'); } }" + handler("return new Response('own');")
    await ingress.serve((await ingress.version("a", source), 10000))
    assert await ingress.text() == "own"


@pytest.mark.req("MW-16")
async def test_the_named_globals_are_there(ingress: Ingress) -> None:
    names = [
        "Request",
        "Response",
        "Headers",
        "URL",
        "URLSearchParams",
        "ReadableStream",
        "TextEncoder",
        "TextDecoder",
        "AbortController",
        "AbortSignal",
        "crypto",
        "fetch",
        "console",
        "setTimeout",
        "clearTimeout",
        "setInterval",
        "clearInterval",
    ]
    await ingress.serve_handler(f"return Response.json({names}.filter((name) => globalThis[name] === undefined));")
    assert await ingress.json() == []


@pytest.mark.req("MW-10", "MW-14")
async def test_a_main_module_that_exports_then_is_no_promise(ingress: Ingress) -> None:
    await ingress.serve_handler("return new Response('served');", "export function then() {}")
    assert await ingress.text() == "served"


@pytest.mark.req("MW-15")
async def test_no_code_can_be_made_at_run_time(ingress: Ingress) -> None:
    body = (
        "const tries = [() => eval('1'), () => new Function('1'), () => (async () => {}).constructor('1'),"
        "() => ctx.waitUntil.constructor('1'), () => new WebAssembly.Module(new Uint8Array([0,97,115,109,1,0,0,0]))];"
        "return Response.json([...atStart, ...tries.map((t) => { try { t(); return 'made'; } catch (e) { return e.name; } })]);"
    )
    before = "const atStart = [() => eval('1'), () => new Function('1')].map((t) => { try { t(); return 'made'; } catch (e) { return e.name; } });"
    await ingress.serve_handler(body, before)
    assert await ingress.json() == ["EvalError"] * 6 + ["CompileError"]


@pytest.mark.req("MW-16")
async def test_the_hosts_own_listener_is_unreachable_by_any_spelling(ingress: Ingress) -> None:
    hosts = ["127.0.0.1", "localhost", "[::1]", "127.1", "0.0.0.0", "[::ffff:127.0.0.1]", "app.workers.localhost"]
    body = (
        "const { url } = await request.json();"
        "return new Response(await fetch(url).then((r) => 'reached ' + r.status, (e) => e.name + ' ' + e.message));"
    )
    await ingress.serve_handler(body)
    for host in hosts:
        answer = await ingress.client.post("/", json={"url": f"http://{host}:{ingress.port}/"})
        assert answer.text.startswith("TypeError fetch of "), (host, answer.text)
        assert "never reachable" in answer.text


@pytest.mark.req("MW-16")
async def test_thousands_of_fetches_at_once_all_settle_and_the_process_lives(ingress: Ingress) -> None:
    refused = f"fetch('http://127.0.0.1:{ingress.port}/' + n)"
    await ingress.serve_handler(
        f"const all = await Promise.allSettled(Array.from({{ length: 3000 }}, (_, n) => {refused}));"
        "return Response.json([all.length, new Set(all.map((each) => each.reason.name))].map((v) => v.size ?? v));"
    )
    first = ingress.gateway.pid
    assert await ingress.json() == [3000, 1]
    assert ingress.gateway.pid == first


@pytest.mark.req("MW-16")
async def test_a_fetch_that_waits_its_turn_is_the_one_that_was_called(ingress: Ingress) -> None:
    """More than a turn holds: the request is taken as it was at the call, and a bad one rejects."""
    body = (
        f"const own = 'http://127.0.0.1:{ingress.port}/';"
        "const note = (p) => p.then(() => 'resolved', (e) => e.name + ' ' + e.message.split(' ').slice(0, 3).join(' '));"
        "const many = Array.from({ length: 64 }, () => note(fetch(own)));"
        "const url = { text: own, toString() { return this.text; } }; const late = note(fetch(url)); url.text = 'x:';"
        "const bad = note(fetch('no url')); const stop = note(fetch(own, { signal: AbortSignal.abort() }));"
        "await Promise.all(many); return Response.json([await late, (await bad).split(' ')[0], (await stop).split(' ')[0],"
        "fetch.name, fetch.length]);"
    )
    await ingress.serve_handler(body)
    late = f"TypeError fetch of 127.0.0.1:{ingress.port}"
    assert await ingress.json() == [late, "TypeError", "AbortError", "fetch", 0]
