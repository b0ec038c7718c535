"""App code that patches all it can reach finds neither the channel nor another context; built-ins stay shut."""

import json

import pytest

from host.ports import BindingRecord
from tests.emulator.runtime.conftest import Run, ScriptedHost

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.req("DW-22", "DW-42", "MW-15")]

# Wraps every configurable property of the reachable prototypes and namespaces, puts accessors on Object.prototype and
# notes each object it is shown that could speak for the host.
SPY = r"""
const DP = Object.defineProperty, apply = Reflect.apply, leaks = []; let busy = true, wrapped = 0, polluted = 0;
const speaks = (x) => x !== null && (typeof x === "object" || typeof x === "function") && x !== globalThis
  && (x instanceof WS || typeof x.send === "function" || typeof x.fetch === "function" || x.props !== undefined);
const WS = WebSocket;
const look = (where, x) => { try { if (speaks(x)) leaks.push(where); } catch {} };
const watch = (where, work) => { if (busy) return; busy = true; try { work(where); } finally { busy = false; } };
const wrap = (object, name) => { for (const key of Reflect.ownKeys(object)) {
  const d = Reflect.getOwnPropertyDescriptor(object, key); if (!d?.configurable) continue; wrapped++;
  const tag = name + "." + String(key);
  try {
    if (typeof d.value === "function" && key !== "constructor") DP(object, key, { __proto__: null, ...d,
      value: new Proxy(d.value, { __proto__: null, apply(target, self, args) {
        watch(tag, (t) => { look(t + " this", self); for (const a of args) look(t + " argument", a); });
        return apply(target, self, args); } }) });
    else if (d.get) { const get = d.get; DP(object, key, { __proto__: null, ...d, get() {
      watch(tag, (t) => look(t + " get", this)); return apply(get, this, []); } }); }
  } catch {} } };
for (const n of ["Promise", "WebSocket", "EventTarget", "MessageEvent", "Event", "Map", "Set", "WeakMap", "Array",
  "Function", "String", "Response", "Request", "Headers", "TextEncoder", "ReadableStream", "Error", "TypeError", "Object"])
  if (globalThis[n]?.prototype) wrap(globalThis[n].prototype, n + ".prototype");
for (const n of ["Promise", "JSON", "Reflect", "Object", "Array", "Symbol"]) wrap(globalThis[n], n);
for (const key of ["resolve", "reject", "then", "value", "get", "set", "done", "text", "name", "step", "state", "known",
  "settings", "effect", "policy", "kind", "attempt", "message", "webSocket", "data", "send", "app", "env", "0", "1", "2", "3", "4"])
  try { DP(Object.prototype, key, { __proto__: null, configurable: true,
    set(v) { watch("set " + key, (t) => { look(t, this); look(t, v); });
      DP(this, key, { __proto__: null, value: v, writable: true, configurable: true, enumerable: true }); },
    get() { watch("get " + key, (t) => look(t, this)); return undefined; } }); polluted++; } catch {}
Error.prepareStackTrace = (error, sites) => sites.map((site) => {
  for (const ask of ["getThis", "getFunction"]) { const x = site[ask](); if (x !== undefined && x !== null && x !== globalThis)
    leaks.push(ask + " of " + site.getFileName()); }
  return site.getFileName(); }).join(" ");
busy = false;
"""


async def spied(shared: ScriptedHost, body: str) -> Run:
    source = SPY + "export class Flow { constructor(env) { this.env = env; } async run(event, step) {" + body + "} }"
    return await shared.start(
        source, bindings=(BindingRecord("WF", "workflow", "target-1"),), variables={"V": "v"}, now_ms=1_800_000_000_000
    )


async def test_code_that_wraps_every_builtin_is_shown_nothing_of_the_host(shared: ScriptedHost) -> None:
    run = await spied(
        shared,
        """
        const stack = new Error("here").stack; let inside;
        const a = await step.do("a", async () => { inside = new Error("x").stack; return { z: [1, { q: 2 }] }; });
        const b = await step.do("b", () => { throw new Error("no"); }).catch((e) => e);
        const c = await step.sleep("c", 0); const d = await step.do("d", () => ({}), { maxAttempts: 2 });
        await this.env.WF.get("x"); busy = true;
        return { leaks, wrapped, polluted, b: b.name, keys: Reflect.ownKeys(this.env), files: typeof stack + typeof inside };
        """,
    )
    found = await run.result()
    assert isinstance(found, dict)
    assert found["leaks"] == []
    assert isinstance(found["wrapped"], int) and found["wrapped"] > 250
    assert found["polluted"] == 28
    assert (found["b"], found["keys"]) == ("step_failed", ["V", "WF"])
    await run.started.stop()


async def test_the_spy_sees_a_socket_that_is_put_before_it(shared: ScriptedHost) -> None:
    run = await spied(
        shared,
        "const pair = new WebSocketPair(); new Map().set('k', pair[0]); const plain = {}; plain.send = pair[1];"
        "pair[0].get; busy = true; return { leaks };",
    )
    assert await run.result() == {
        "leaks": ["Map.prototype.set argument", "set send", "get get"],
    }
    await run.started.stop()


@pytest.mark.parametrize("key", ["get", "value", "data", "target", "currentTarget", "then", "constructor", "toJSON"])
async def test_an_inherited_function_never_gets_the_message_event_or_a_host_promise(
    shared: ScriptedHost, key: str
) -> None:
    run = await shared.start(
        "const got = []; let armed = false; const DP = Object.defineProperty; for (const o of [Object.prototype, Promise.prototype])"
        "DP(o, '"
        + key
        + "', { __proto__: null, configurable: true, get() { if (!armed) return undefined; return function (...a) {"
        "for (const x of [this, ...a]) if (typeof x?.send === 'function' || typeof x?.target?.send === 'function') got.push('leak');"
        "return this?.data; }; } });"
        "export class Flow { async run(event, step) { armed = true; const p = step.do('a', () => undefined); let settled = 0;"
        "setTimeout(() => { armed = false; for (const o of [Object.prototype, Promise.prototype]) delete o['"
        + key
        + "'];"
        "settled = 1; }, 30); while (!settled) await new Promise((r) => setTimeout(r, 10)); await p; return { got }; } }"
    )
    ended = await run.end()
    assert ended[0] != "return" or ended[1] == '{"got":[]}', ended
    await run.started.stop()


async def test_patched_then_sees_native_resolvers_only(shared: ScriptedHost) -> None:
    run = await shared.start(
        r"""
        const seen = []; let on = false; const apply = Reflect.apply, then = Promise.prototype.then, DP = Object.defineProperty;
        const text = Function.prototype.toString;
        DP(Promise.prototype, "then", { __proto__: null, configurable: true, value(...callbacks) {
          if (on) for (const c of callbacks) seen.push(typeof c === "function" ? apply(text, c, []) : String(c));
          return apply(then, this, callbacks); } });
        DP(Promise.prototype, "constructor", { __proto__: null, configurable: true, get() { return class extends Promise {}; } });
        DP(Promise, Symbol.species, { __proto__: null, configurable: true, get() { return class extends Promise {}; } });
        export class Flow { async run(event, step) { on = true; const a = await step.do("a", async () => ({ q: 1 }));
          const b = await step.do("b", () => ({ q: 2 })); on = false; return { a, b, foreign: seen.filter((s) => !s.includes("[native code]")) }; } }
        """
    )
    assert await run.result() == {"a": {"q": 1}, "b": {"q": 2}, "foreign": []}
    await run.started.stop()


@pytest.mark.req("MW-11", "DW-22")
@pytest.mark.parametrize(
    "specifier",
    [
        "cloudflare:workers",
        "cloudflare:sockets",
        "cloudflare:email",
        "cloudflare:workflows",
        "node:fs",
        "node:async_hooks",
        "workerd:unsafe",
        "workerd:compatibility-flags",
        "node-internal:internal_inspect",
        "cloudflare-internal:workers",
        "cloudflare:durable-objects",
        "data:text/javascript,export default 1",
    ],
)
async def test_even_an_import_that_escaped_the_rewrite_finds_no_builtin(shared: ScriptedHost, specifier: str) -> None:
    run = await shared.run(f"return {{ got: await import('{specifier}').then(() => 'loaded', () => 'refused') }};")
    assert await run.result() == {"got": "refused"}
    await run.started.stop()


@pytest.mark.req("DW-22")
async def test_code_cannot_be_made_from_text(shared: ScriptedHost) -> None:
    makers = "[() => eval('1'), () => new Function('return 1'), () => step.do.constructor('return 1'), () => (async () => {}).constructor('')]"
    source = (
        "const top = []; for (const make of [() => eval('1'), () => Function('')]) try { make(); top.push('made') } catch { top.push('no') }"
        "export class Flow { run(event, step) { const inside = []; for (const make of "
        + makers
        + ") try { make(); inside.push('made') } catch { inside.push('no') } return { top, inside }; } }"
    )
    run = await shared.start(source)
    assert await run.result() == {"top": ["no", "no"], "inside": ["no", "no", "no", "no"]}
    await run.started.stop()


@pytest.mark.req("DW-42")
async def test_a_binding_call_carries_the_props_of_its_own_context(shared: ScriptedHost) -> None:
    run = await shared.run(
        "return { id: (await this.env.WF.get('x')).id };", bindings=(BindingRecord("WF", "workflow", "target-1"),)
    )
    assert await run.result() == {"id": "WF"}
    call = shared.calls.calls[-1]
    assert (call.version_uid, call.binding, call.kind, call.target_uid) == ("version-1", "WF", "workflow", "target-1")
    assert call.context_id == run.started.id
    assert json.loads(call.body) == ["get", "x"]
    await run.started.stop()
