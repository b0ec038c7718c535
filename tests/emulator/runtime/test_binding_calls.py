"""Workflow bindings as app code sees them, on real workerd with a scripted host."""

import json

import pytest

from emulator.contexts import BindingCall
from emulator.runtime.process import Launcher
from host.model.json import JsonValue
from host.ports import BindingRecord
from tests.emulator.runtime.bundles import Bundler
from tests.emulator.runtime.gateways import Ingress, handler

WORKFLOW = (BindingRecord("FLOW", "workflow", "workflow-1"),)


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


@pytest.mark.req("DW-10", "MW-14")
async def test_hundreds_of_calls_at_once_are_not_taken_for_a_loop(launcher: Launcher, bundler: Bundler) -> None:
    ingress = Ingress(launcher, bundler, cpu_limit_s=0.25)
    body = (
        "const calls = Array.from({ length: 600 }, (_, i) => env.FLOW.create({ id: 'i' + i }));"
        "return new Response((await Promise.all(calls)).length);"
    )
    await ingress.serve_handler(body, bindings=WORKFLOW)
    assert await ingress.text() == "600"
    assert [json.loads(call.body)[1] for call in ingress.calls.calls] == [f"i{number}" for number in range(600)]
    await ingress.close()
