"""App code that breaks the language under the host's feet, before its steps or in the middle of one: what the host hears
is what the steps did, and nothing else."""

import asyncio
import json

import pytest

from emulator.runtime.identity import figures_of
from emulator.runtime.kernels import OutboundMode, OutboundPolicy
from emulator.runtime.pool import PoolSettings
from host.model.json import JsonValue
from host.ports import BindingRecord
from tests.emulator.runtime.conftest import DEADLINE_S, PATIENT, Answer, Frame, Pools, ScriptedHost, durable

MIB = 1024 * 1024
BINDINGS = (BindingRecord("WF", "workflow", "target-1"), BindingRecord("SVC", "service", "worker-2"))
# every function of an object becomes one that throws; accessors stay
BREAK = """
const breakAll = ((define, own, read) => (object, but = []) => { for (const key of own(object)) {
  const d = read(object, key); if (!d.configurable || typeof d.value !== "function" || key === "constructor") continue;
  let kept = false; for (let i = 0; i < but.length; i++) if (but[i] === key) kept = true;
  if (!kept) define(object, key, { __proto__: null, ...d, value() { throw new Error("broken"); } }); }
})(Object.defineProperty, Reflect.ownKeys, Reflect.getOwnPropertyDescriptor);
const hide = ((define) => (object, key, get) => define(object, key, { __proto__: null, configurable: true, get, set() {} }))(Object.defineProperty);
"""
TAMPERS = {
    "nothing": "",
    "Promise.prototype": "breakAll(Promise.prototype);",
    "Promise": "breakAll(Promise);",
    "Promise constructors": (
        "hide(Promise.prototype, 'constructor', () => class { constructor(f) { f(() => {}, () => {}); } });"
        "hide(Promise, Symbol.species, () => class { constructor(f) { f(() => {}, () => {}); } });"
    ),
    "Array.prototype": "breakAll(Array.prototype);",
    "Array iteration": "Array.prototype[Symbol.iterator] = function* () { yield 'forged'; };",
    "Array indices": "for (const key of ['0', '1', '2', '3', '4']) hide(Array.prototype, key, () => 'forged');",
    "Object": "breakAll(Object);",
    "Object.prototype": "breakAll(Object.prototype);",
    "Object.prototype members": (
        "for (const key of ['get', 'set', 'value', 'writable', 'enumerable', 'toJSON', 'then', 'name', 'kind', 'state', 'text',"
        " 'settings', 'attempt', 'method', 'body', 'status', 'webSocket', 'length', '0', '1']) hide(Object.prototype, key, () => 'forged');"
    ),
    "JSON": "breakAll(JSON); String.prototype.toJSON = () => 'forged'; Number.prototype.toJSON = () => 9;",
    "Map, Set and WeakMap": "for (const C of [Map, Set, WeakMap, WeakSet]) breakAll(C.prototype);",
    "Map that forges": "Map.prototype.get = () => ({ state: 'succeeded', text: '{}' }); Map.prototype.set = function () {};",
    "Function.prototype": "breakAll(Function.prototype);",
    "Reflect": "breakAll(Reflect);",
    "String and Number": "breakAll(String.prototype); breakAll(String); breakAll(Number); breakAll(Number.prototype);",
    "Symbol": "breakAll(Symbol); breakAll(Symbol.prototype);",
    "RegExp and Math": "breakAll(RegExp.prototype); breakAll(Math);",
    "Error": (
        "Error.prepareStackTrace = () => { throw new Error('broken'); }; Error.stackTraceLimit = Infinity;"
        "breakAll(Error); breakAll(Error.prototype); hide(Error.prototype, 'name', () => { throw 1; });"
    ),
    "sockets and events": (
        "for (const C of [WebSocket, EventTarget, Event, MessageEvent, Request, Response, Headers, TextEncoder, AbortSignal])"
        " { breakAll(C.prototype); for (const key of Reflect.ownKeys(C.prototype)) try { delete C.prototype[key]; } catch {} }"
    ),
    "globals": (
        "for (const key of Reflect.ownKeys(globalThis)) if (key !== 'globalThis' && key !== 'Error') try { delete globalThis[key]; } catch {}"
        "for (const key of ['WebSocket', 'Response', 'Request', 'addEventListener']) globalThis[key] = undefined;"
    ),
    "frozen prototypes": "for (const C of [Object, Array, Promise, Function, Error, Map]) Object.freeze(C.prototype);",
    "console": "breakAll(console); hide(globalThis, 'console', () => { throw 1; });",
}
BREAKS_THE_ENGINE = "Promise.prototype"  # workerd's own imports and requests need `then`: such an app fails, alone
PROGRAM = """
const a = await step.do("a", async () => { MIDDLE; return { n: [1, { q: "é" }] }; });
let e; try { await step.do("b", () => { throw new Error("no"); }); } catch (error) { e = error.name; }
await step.sleep("c", 0);
const d = await step.do("d", () => ({}), { maxAttempts: 2, initialDelaySeconds: 1 });
const w = await step.waitForEvent("w", { type: "go", timeoutSeconds: 5 });
const { id } = await this.env.WF.create({ id: "x", params: { p: [1] } });
return { a, e, d, w, id };
"""
FRAMES: list[Frame] = [
    ["begin", 0, "a", 1, None],
    ["done", 1, "a", 1, '{"n":[1,{"q":"é"}]}'],
    ["begin", 0, "b", 1, None],
    ["failed", 2, "b", 1, "no"],
    ["sleep", 3, "c", 0],
    [
        "begin",
        4,
        "d",
        1,
        '{"backoff":"constant","initialDelaySeconds":1,"maxAttempts":2,"maxDelaySeconds":43200}',
    ],
    ["done", 5, "d", 1, "{}"],
    ["wait", 6, "w", "go", 5],
    ["return", '{"a":{"n":[1,{"q":"é"}]},"d":{},"e":"step_failed","id":"WF","w":{"w":1}}'],
]


def answer(frame: Frame) -> Answer:
    return ("done", '{"w":1}') if frame[0] == "wait" else durable(frame)


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.req("DW-22", "DW-42", "DW-37")
@pytest.mark.parametrize("when", ["before the class", "in an effect"])
@pytest.mark.parametrize("what", TAMPERS)
async def test_a_broken_language_changes_no_frame_and_no_result(shared: ScriptedHost, what: str, when: str) -> None:
    early, late = (TAMPERS[what], "") if when == "before the class" else ("", TAMPERS[what])
    source = (
        f"{BREAK} {early} export class Flow {{ constructor(env) {{ this.env = env; }} async run(event, step) {{"
        + PROGRAM.replace("MIDDLE", late)
        + "} }"
    )
    run = await shared.start(source, bindings=BINDINGS, answer=answer)
    end = await run.end()
    await run.started.stop()
    if what == BREAKS_THE_ENGINE:
        assert run.frames == [*FRAMES[: len(run.frames) - 1], end]
        assert end[0] == "threw"
        return
    assert run.frames == FRAMES
    assert json.loads(shared.calls.calls[-1].body) == ["create", "x", '{"p":[1]}']


REACHES: dict[str, tuple[str, JsonValue]] = {
    "what the global object holds": (
        "const found = []; for (let o = globalThis; o !== null; o = Object.getPrototypeOf(o)) for (const key of Reflect.ownKeys(o)) {"
        " let x; try { x = o[key]; } catch { continue; } if (x instanceof WebSocket || typeof x?.connect === 'function'"
        " || typeof x?.getEntrypoint === 'function') found.push(String(key)); } return { found };",
        {"found": []},
    ),
    "a copy of step": ("try { structuredClone(step); } catch (e) { return { e: e.name }; }", {"e": "DataCloneError"}),
    "a message with step": (
        "try { new MessageChannel().port1.postMessage(step.do); } catch (e) { return { e: e.name }; }",
        {"e": "DataCloneError"},
    ),
    "a copy of a binding": (
        "const out = []; for (const name of ['WF', 'SVC']) try { structuredClone(this.env[name]); } catch (e) { out.push(e.name); } return { out };",
        {"out": ["DataCloneError"] * 2},
    ),
    "members of a binding": (
        "const keys = (x) => Reflect.ownKeys(x).map(String).sort(); return { wf: keys(this.env.WF), svc: keys(this.env.SVC),"
        " i: keys(await this.env.WF.get('x')), protos: [this.env.WF, this.env.SVC, step].map(Object.getPrototypeOf) };",
        {
            "wf": ["create", "get"],
            "svc": ["fetch"],
            "i": ["id", "sendEvent", "status", "terminate"],
            "protos": [None] * 3,
        },
    ),
    "callers of host functions": (
        "const seen = []; for (const f of [step.do, this.env.WF.get]) for (const key of ['caller', 'arguments'])"
        " try { seen.push(String(f[key])); } catch (e) { seen.push(e.name); } return { seen };",
        {"seen": ["TypeError"] * 4},
    ),
    "call sites of a host error": (
        "let seen = 0; Error.prepareStackTrace = (e, sites) => { for (const s of sites) for (const ask of ['getThis', 'getFunction'])"
        " { const x = s[ask](); if (x !== undefined && x !== null && x !== globalThis) seen++; } return sites.length; };"
        " Error.stackTraceLimit = 200; const errors = []; try { await step.sleep('x', -1); } catch (e) { errors.push(e.stack); }"
        " try { await step.do('y', () => { throw 1; }); } catch (e) { errors.push(e.stack); }"
        " try { await this.env.WF.create(1); } catch (e) { errors.push(e.stack); } return { seen, n: errors.length };",
        {"seen": 0, "n": 3},
    ),
    "registered symbols": (
        "const names = ['step', 'channel', 'takohost', 'host', 'socket', 'nodejs.util.inspect.custom'];"
        " return { found: names.filter((n) => globalThis[Symbol.for(n)] !== undefined || step[Symbol.for(n)] !== undefined) };",
        {"found": []},
    ),
    "the module's own meta": (
        "return { keys: Reflect.ownKeys(import.meta).length, proto: Object.getPrototypeOf(import.meta) };",
        {"keys": 0, "proto": None},
    ),
    "code made from text": (
        "const out = []; const F = Object.getPrototypeOf; for (const make of [() => eval('1'), () => Function('1'),"
        " () => F(async () => {}).constructor('1'), () => F(function* () {}).constructor('1'),"
        " () => F(async function* () {}).constructor('1'), () => new WebAssembly.Module(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0])),"
        " () => setTimeout('1', 0), () => step.do.constructor('return 1')()])"
        " try { make(); out.push('made'); } catch (e) { out.push('no'); } return { out };",
        {"out": ["no"] * 8},
    ),
    "events that the runtime would send": (
        "let seen = 0; for (const type of ['fetch', 'message', 'scheduled', 'tail', 'trace', 'connect'])"
        " try { addEventListener(type, () => { seen++; }); dispatchEvent(new Event(type)); } catch {}"
        " dispatchEvent(Object.defineProperty(new Event('unhandledrejection', { cancelable: true }), 'reason',"
        " { get() { return step; } })); await step.do('a', () => {}); return { seen: seen > 0 };",
        {"seen": True},
    ),
    "a cache that others share": (
        "const out = []; try { await caches.default.put('http://x/', new Response('x')); } catch { out.push('no'); }"
        " try { await (await caches.open('a')).match('http://x/'); } catch { out.push('no'); } return { out };",
        {"out": ["no", "no"]},
    ),
    "a wait that blocks the process": (
        "const cell = new Int32Array(new SharedArrayBuffer(8)); try { Atomics.wait(cell, 0, 0); } catch (e) { return { e: e.name }; }",
        {"e": "TypeError"},
    ),
    "a finalizer": (
        "const seen = []; const r = new FinalizationRegistry((x) => seen.push(x)); r.register({}, 1); r.register(step, 2);"
        " for (let i = 0; i < 50; i++) { new Array(1e5).fill(i); await new Promise((f) => setTimeout(f)); }"
        " return { host: seen.includes(2) };",
        {"host": False},
    ),
}


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.req("DW-22", "DW-42", "MW-15")
@pytest.mark.parametrize("what", REACHES)
async def test_nothing_within_reach_of_an_app_leads_to_the_host(shared: ScriptedHost, what: str) -> None:
    body, expected = REACHES[what]
    run = await shared.run(body, bindings=BINDINGS)
    assert await run.result() == expected
    await run.started.stop()


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.req("DW-42", "DW-24")
async def test_a_step_that_was_kept_is_of_no_use_to_another_instance(shared: ScriptedHost) -> None:
    body = (
        "globalThis.kept ??= step; const same = globalThis.kept === step; await globalThis.kept.do(event.instanceId, () => ({}));"
        " return { same };"
    )
    for name in ("one", "two"):
        run = await shared.run(body, instance_id=name)
        assert await run.result() == {"same": True}
        assert [frame[2] for frame in run.frames[:2]] == [name, name]
        await run.started.stop()


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.req("DW-31", "DW-42")
@pytest.mark.parametrize(
    "call",
    [
        "new Proxy({ maxAttempts: 1 }, { ownKeys(t) { step.do('inner', () => ({})); return Reflect.ownKeys(t); } })",
        "new Proxy({ maxAttempts: 1 }, { getPrototypeOf() { step.sleep('inner', 0); return Object.prototype; } })",
    ],
)
async def test_a_step_begun_by_a_trap_of_anothers_arguments_overlaps(shared: ScriptedHost, call: str) -> None:
    run = await shared.run(f"await step.do('outer', () => ({{}}), {call}); return {{}};")
    assert await run.end() == ["mismatch", "outer was called while inner was not settled"]
    await run.started.stop()
    assert run.verbs() == ["mismatch"]


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.req("DW-38", "DW-42")
async def test_a_step_called_where_the_stack_ends_sends_nothing_that_was_not_done(shared: ScriptedHost) -> None:
    run = await shared.run(
        "let calls = 0; const dive = () => { try { dive(); } catch (e) { if (calls < 3) { calls++;"
        " try { step.do('deep' + calls, () => ({ n: 1 })).catch(() => {}); } catch {} } throw e; } };"
        " try { dive(); } catch {} await new Promise((r) => setTimeout(r, 10)); return { calls };"
    )
    frame = await run.end()
    assert frame[0] in ("mismatch", "return")
    assert set(map(str, run.verbs())) <= {"begin", "done", "mismatch", "return"}
    await run.started.stop()


FLOODS = {
    "console": "for (let i = 0; i < 30000; i++) { console.log('x'.repeat(300)); if (i % 500 === 0) await pause(); }",
    "long lines": "for (let i = 0; i < 60; i++) { console.log('x'.repeat(3e6)); await pause(); }",
    "calls": "for (let n = 0; n < 20; n++) await Promise.all(Array.from({ length: 500 }, () => this.env.WF.get('x')));",
    "calls with large bodies": (
        "const params = { t: 'x'.repeat(1e6) }; await Promise.all(Array.from({ length: 100 }, () => this.env.WF.create({ params })));"
    ),
    "refused steps": "for (let i = 0; i < 50000; i++) { step.do('').catch(() => {}); if (i % 5000 === 0) await pause(); }",
    "steps": "for (let i = 0; i < 1024; i++) await step.do('s' + i, () => ({ i }));",
    "large results": "for (let i = 0; i < 60; i++) await step.do('s' + i, () => ({ t: 'x'.repeat(1e6) }));",
    "refused fetches": (
        "for (let n = 0; n < 20; n++) await Promise.all(Array.from({ length: 200 }, () => fetch('http://127.0.0.1:1/').catch(() => {})));"
    ),
    "timers": "for (let i = 0; i < 9000; i++) setTimeout(() => {}, 1); await pause();",
    "rejections": "for (let i = 0; i < 5000; i++) Promise.reject(new Error('loose ' + i)); await pause();",
}


@pytest.mark.req("DW-39", "DW-42")
@pytest.mark.parametrize("of", FLOODS)
async def test_a_flood_ends_and_costs_the_host_and_others_little(pools: Pools, of: str) -> None:
    host = await pools.open(
        PoolSettings(1, share=4, context_cpu_limit_s=60, stop=PATIENT), OutboundPolicy(OutboundMode.PUBLIC)
    )
    pause = "const pause = () => new Promise((r) => setTimeout(r));"
    figures = figures_of_self()
    flood = await host.run(pause + FLOODS[of] + "return { ok: 1 };", bindings=BINDINGS, instance_id="flood")
    beside = await host.run("return await step.do('a', () => ({ ok: 2 }));", instance_id="beside")
    assert await asyncio.wait_for(beside.result(), DEADLINE_S) == {"ok": 2}
    assert await flood.result() == {"ok": 1}
    assert figures_of_self() - figures < 160
    assert (await flood.started.stop()).kind == "ack"


def figures_of_self() -> float:
    """The test host's memory in MiB."""
    import os

    found = figures_of(os.getpid())
    assert found is not None
    return found.rss_bytes / MIB
