"""What a fetch handler of an app is given, may do and may return, on real workerd."""

import asyncio
import json

import pytest

from emulator.contexts import BindingCall
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


BUNDLE: dict[str, str | bytes] = {
    "main.js": (
        "import text from './a/notes.txt'; import data from './a/raw.bin'; import wasm from './a/empty.wasm';"
        "import { deep } from './a/deep.js';"
        "const show = async (load) => { try { const m = await load(); return [Object.keys(m), typeof m.default]; }"
        "  catch (e) { return [e.name, e instanceof Error]; } };"
        "export default { async fetch(request) { const { from, specifier, options } = await request.json();"
        "  if (from === 'static') return Response.json([text, data.byteLength, data.constructor.name,"
        "    wasm instanceof WebAssembly.Module]);"
        "  if (from === 'a/deep.js') return Response.json(await show(() => deep(specifier)));"
        "  return Response.json(await show(() => options ? import(specifier, options) : import(specifier))); } };"
    ),
    "a/deep.js": "export const deep = (specifier) => import(specifier);",
    "a/x.js": "export const x = 1; export default 2;",
    "a/notes.txt": "\ufeffhé",
    "a/raw.bin": b"\0\xff\x01",
    "a/empty.wasm": b"\0asm\1\0\0\0",
    "a/x.js.map": "{}",
    "throws.js": "throw new RangeError('evaluated');",
}
DYNAMIC: list[tuple[str, str, JsonValue]] = [
    ("main.js", "./a/x.js", [["default", "x"], "number"]),
    ("main.js", "/a/x.js", [["default", "x"], "number"]),
    ("main.js", "./a/../a/./x.js", [["default", "x"], "number"]),
    ("a/deep.js", "./x.js", [["default", "x"], "number"]),
    ("a/deep.js", "../a/x.js", [["default", "x"], "number"]),
    ("main.js", "./a/notes.txt", [["default"], "string"]),
    ("main.js", "./a/raw.bin", [["default"], "object"]),
    ("main.js", "./a/empty.wasm", [["default"], "object"]),
    ("main.js", "./a/x.js.map", ["unsupported_media_type", True]),
    ("main.js", "./throws.js", ["RangeError", True]),
]


NOT_FOUND = [
    "a/x.js",
    "./x.js",
    "./a/x",
    "./a/X.js",
    "./a/x.js?",
    "./a/%78.js",
    "../main.js",
    "/../main.js",
    ".//a/x.js",
    "",
    "cloudflare:workers",
    "cloudflare:sockets",
    "node:process",
    "node:async_hooks",
    "/host/prim.js",
    "../host/prim.js",
    "./host/prim.js",
    "/app/main.js",
    "data:text/javascript,1",
    "http://example.com/x.js",
    "__proto__",
    "./__proto__",
    "./constructor",
]


@pytest.mark.req("MW-11", "MW-12", "MW-13")
async def test_dynamic_imports_resolve_as_static_ones_and_reject_by_name(ingress: Ingress) -> None:
    await ingress.serve((await ingress.version("a", BUNDLE), 10000))
    refused: list[tuple[str, str, JsonValue]] = [("main.js", name, ["module_not_found", True]) for name in NOT_FOUND]
    for origin, specifier, expected in DYNAMIC + refused:
        answer = await ingress.client.post("/", json={"from": origin, "specifier": specifier})
        assert answer.json() == expected, (origin, specifier)
    options = {"from": "main.js", "specifier": "./a/notes.txt", "options": {"with": {"type": "text"}}}
    assert (await ingress.client.post("/", json=options)).json() == ["unsupported_media_type", True]
    assert (await ingress.client.post("/", json={"from": "static"})).json() == ["\ufeffhé", 3, "ArrayBuffer", True]


@pytest.mark.req("MW-11")
async def test_dynamic_import_behaves_as_the_engines_own(ingress: Ingress) -> None:
    body = (
        "const out = {}; try { import((() => { throw 1 })()); } catch (e) { out.sync = e; }"
        "out.text = await import({ toString() { throw 2 } }).catch((e) => e);"
        "out.symbol = await import(Symbol()).catch((e) => e.name);"
        "out.same = (await import('./b.js')) === (await import('./b.js')); out.then = await import('./then.js');"
        "out.cycle = await (await import('./cycle.js')).early; return Response.json(out);"
    )
    files = {
        "main.js": "import './cycle.js';"
        + handler(body)
        + "export function hoisted() { return import('./b.js').then((m) => m.b); }",
        "b.js": "export const b = 1;",
        "then.js": "export function then(resolve) { resolve('thenable'); }",
        "cycle.js": "import { hoisted } from './main.js'; export const early = hoisted();",
    }
    await ingress.serve((await ingress.version("a", files), 10000))
    assert await ingress.json() == {
        "sync": 1,
        "text": 2,
        "symbol": "TypeError",
        "same": True,
        "then": "thenable",
        "cycle": 1,
    }


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


def answer_for(call: BindingCall) -> list[JsonValue]:
    if call.body.startswith('["status"'):
        return ["ok", "complete", '{"total":3}', None, None]
    return ["ok", "i-1"]


@pytest.mark.req("DW-10", "DW-12", "DW-16", "DW-17")
async def test_binding_calls_go_to_the_host_with_the_props_of_the_stub(ingress: Ingress) -> None:
    body = (
        "const made = await env.FLOW.create({ id: 'i-1', params: { b: 1, a: ['\\u2028', 0.5] } });"
        "const out = [Reflect.ownKeys(made), made.id, Object.isFrozen(made), Object.getPrototypeOf(made), await made.status(),"
        "await made.sendEvent({ type: 'go', payload: { x: 1 } }), await made.terminate(),"
        "(await env.FLOW.create({})).id, (await env.FLOW.get('i-1')).id, await made.sendEvent({ type: 'bare' })];"
        "return Response.json(out.map((v) => v === undefined ? 'undefined' : v));"
    )
    ingress.calls.reply = answer_for
    await ingress.serve_handler(body, bindings=WORKFLOW)
    assert await ingress.json() == [
        ["id", "status", "sendEvent", "terminate"],
        "i-1",
        True,
        None,
        {"status": "complete", "output": {"total": 3}},
        "undefined",
        "undefined",
        "i-1",
        "i-1",
        "undefined",
    ]
    bodies = [call.body for call in ingress.calls.calls]
    assert bodies == [
        '["create","i-1","{\\"a\\":[\\"\u2028\\",0.5],\\"b\\":1}"]',
        '["status","i-1"]',
        '["sendEvent","i-1","go","{\\"x\\":1}"]',
        '["terminate","i-1"]',
        '["create",null,null]',
        '["get","i-1"]',
        '["sendEvent","i-1","bare",null]',
    ]
    assert {(c.version_uid, c.binding, c.kind, c.target_uid, c.context_id) for c in ingress.calls.calls} == {
        ("v1", "FLOW", "workflow", "workflow-1", None)
    }


STATUSES: list[tuple[list[JsonValue], JsonValue]] = [
    (["ok", "running", None, None, None], {"status": "running"}),
    (["ok", "complete", None, None, None], {"status": "complete"}),
    (
        ["ok", "errored", None, "run_threw", "m"],
        {"status": "errored", "error": {"reason": "run_threw", "message": "m"}},
    ),
    (
        ["ok", "errored", None, "lifetime_exceeded", None],
        {"status": "errored", "error": {"reason": "lifetime_exceeded"}},
    ),
]


@pytest.mark.req("DW-12", "DW-13")
async def test_status_has_output_or_error_only_where_they_belong(ingress: Ingress) -> None:
    await ingress.serve_handler("return Response.json(await (await env.FLOW.get('i')).status());", bindings=WORKFLOW)
    for reply, expected in STATUSES:
        ingress.calls.reply = lambda call, reply=reply: reply if "status" in call.body else ["ok", "i"]  # type: ignore[misc]
        assert await ingress.json() == expected


REFUSED = [
    ("flow.create()", "TypeError"),
    ("flow.create(null)", "TypeError"),
    ("flow.create([])", "TypeError"),
    ("flow.create('x')", "TypeError"),
    ("flow.create({ extra: 1 })", "TypeError"),
    ("flow.create({ [Symbol()]: 1 })", "TypeError"),
    ("flow.create({ get id() { throw 1 } })", "TypeError"),
    ("flow.create({ id: '' })", "TypeError"),
    ("flow.create({ id: 1 })", "TypeError"),
    ("flow.create({ id: '\\ud800' })", "TypeError"),
    ("flow.create({ id: 'x'.repeat(257) })", "TypeError"),
    ("flow.create({ params: 1 })", "invalid_params"),
    ("flow.create({ params: [] })", "invalid_params"),
    ("flow.create({ params: null })", "invalid_params"),
    ("flow.create({ params: { f() {} } })", "invalid_params"),
    ("flow.create({ params: { get a() { throw 1 } } })", "invalid_params"),
    ("flow.create({ params: new Proxy({}, { ownKeys() { throw 1 } }) })", "invalid_params"),
    ("flow.create({ params: Object.fromEntries(Array.from({ length: 1025 }, (_, i) => [i, 1])) })", "invalid_params"),
    ("flow.create({ params: { a: 'x'.repeat(1048576) } })", "document_too_large"),
    ("flow.get()", "TypeError"),
    ("flow.get(1)", "TypeError"),
    ("made.sendEvent()", "TypeError"),
    ("made.sendEvent({})", "TypeError"),
    ("made.sendEvent({ type: '' })", "TypeError"),
    ("made.sendEvent({ type: 'a', extra: 1 })", "TypeError"),
    ("made.sendEvent({ type: 'a', payload: 1 })", "TypeError"),
    ("made.sendEvent({ type: 'a', payload: { a: undefined } })", "TypeError"),
    ("made.sendEvent({ type: 'a', payload: { a: 'x'.repeat(1048576) } })", "document_too_large"),
]


@pytest.mark.req("DW-11", "DW-14", "DW-15", "DW-18")
async def test_wrong_arguments_are_rejected_and_reach_no_host(ingress: Ingress) -> None:
    lines = ",".join(f"() => {call}" for call, _ in REFUSED)
    body = (
        "const flow = env.FLOW; const made = await flow.get('i'); const out = [];"
        f"for (const call of [{lines}]) {{ let p; try {{ p = call(); }} catch (e) {{ out.push('threw'); continue; }}"
        "out.push(await p.then(() => 'resolved', (e) => e instanceof Error ? e.name : 'no Error')); }"
        "return Response.json(out);"
    )
    await ingress.serve_handler(body, bindings=WORKFLOW)
    assert await ingress.json() == [name for _, name in REFUSED]
    assert [call.body for call in ingress.calls.calls] == ['["get","i"]']


@pytest.mark.req("DW-11", "DW-15")
async def test_the_longest_id_and_the_largest_params_are_taken(ingress: Ingress) -> None:
    body = (
        "const id = '\\u{1F600}'.repeat(256); const params = { a: 'x'.repeat(1048576 - 8) };"
        "return new Response((await env.FLOW.create({ id, params })).id);"
    )
    await ingress.serve_handler(body, bindings=WORKFLOW)
    assert await ingress.text() == "i-1"


@pytest.mark.req("DW-18")
async def test_host_failures_have_the_hosts_name(ingress: Ingress) -> None:
    body = (
        "const e = await env.FLOW.get('i').catch((e) => e); return Response.json([e.name, e.message, e instanceof Error,"
        "Object.keys(e), e instanceof TypeError]);"
    )
    await ingress.serve_handler(body, bindings=WORKFLOW)
    ingress.calls.reply = lambda call: ["error", "unknown_instance", "no such instance"]
    assert await ingress.json() == ["unknown_instance", "no such instance", True, [], False]
    ingress.calls.reply = lambda call: ["error", "TypeError", "bad"]
    assert await ingress.json() == ["TypeError", "bad", True, [], True]
    ingress.calls.reply = lambda call: [json.loads("no JSON")]
    assert (await ingress.json())[0] == "backend_unavailable"  # type: ignore[index]


# Wraps what it can reach and notes every object with a `fetch` that passes by, the app's own default export aside.
PATCHES = """
const { apply, ownKeys, getOwnPropertyDescriptor: gopd, defineProperty } = Reflect;
const ProxyC = Proxy, join = Array.prototype.join, hasOwn = Object.hasOwn;
let busy = false, count = 0, seen = "";
export const leaks = () => "leaked: " + seen;
const note = (x) => {
  if (busy) return; busy = true;
  try { if (x !== null && typeof x === "object" && x !== globalThis && typeof x.fetch === "function" && !hasOwn(x, "fetch"))
    seen += " " + (++count); } catch {} finally { busy = false; }
};
for (const key of ["get", "value", "then", "method", "body", "toJSON", "0", "id", "ok", "status", "headers"])
  defineProperty(Object.prototype, key, { __proto__: null, configurable: true,
    get() { note(this); return undefined; },
    set(v) { note(this); note(v);
      defineProperty(this, key, { __proto__: null, value: v, writable: true, enumerable: true, configurable: true }); } });
const protos = [Promise, Request, Response, Function, Array, Map, WeakMap, Headers, ReadableStream];
for (let i = 0; i < protos.length; i++) {
  const proto = protos[i].prototype, keys = ownKeys(proto);
  for (let k = 0; k < keys.length; k++) {
    const d = gopd(proto, keys[k]);
    if (!hasOwn(d, "value") || typeof d.value !== "function" || keys[k] === "constructor") continue;
    const wrapped = new ProxyC(d.value, { __proto__: null, apply(f, self, args) {
      note(self); for (let n = 0; n < args.length; n++) note(args[n]); return apply(f, self, args); } });
    defineProperty(proto, keys[k], { __proto__: null, value: wrapped, writable: true, configurable: true });
  }
}
"""


@pytest.mark.req("DW-18", "MW-15")
async def test_an_app_that_patches_everything_sees_no_stub(ingress: Ingress) -> None:
    source = PATCHES + handler("const made = await env.FLOW.create({}); return new Response(made.id + ' ' + leaks());")
    await ingress.serve((await ingress.version("a", source, bindings=WORKFLOW), 10000))
    assert await ingress.text() == "i-1 leaked: "
