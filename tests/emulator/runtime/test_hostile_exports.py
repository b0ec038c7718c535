"""Exports, constructors and results that lie, throw, loop or change: each ends as the contract says, nothing else does."""

import pytest

from emulator.runtime.pool import PoolSettings
from tests.emulator.runtime.conftest import PATIENT, Pools, ScriptedHost

CLASS = "class A { constructor(env) { this.env = env; } async run(event, step) { return { ok: 1 }; } }"
FUNCTION = "function A(env) {} A.prototype.run = () => ({ ok: 1 });"
RETURNS: list[str | None] = ["return", '{"ok":1}']

ENDS: list[tuple[str, str, list[str | None]]] = [
    ("a plain Proxy of the class", f"{CLASS} export const Flow = new Proxy(A, {{}});", RETURNS),
    (
        "a construct trap that gives another object",
        f"{CLASS} export const Flow = new Proxy(A, {{ construct: () => ({{ run: () => ({{ ok: 1 }}) }}) }});",
        RETURNS,
    ),
    (
        "a construct trap that gives a primitive",
        f"{CLASS} export const Flow = new Proxy(A, {{ construct: () => 1 }});",
        ["threw", None, None],
    ),
    (
        "a construct trap that throws",
        f"{CLASS} export const Flow = new Proxy(A, {{ construct() {{ throw new Error('trapped'); }} }});",
        ["threw", "trapped", None],
    ),
    (
        "traps that lie about the class",
        f"{FUNCTION} export const Flow = new Proxy(A, {{ get: () => undefined, getPrototypeOf: () => null, has: () => false }});",
        ["threw", "run is not a function", None],
    ),
    (
        "a prototype that is none",
        f"{FUNCTION} export const Flow = new Proxy(A, {{ get: (t, k) => k === 'prototype' ? 1 : t[k] }});",
        ["threw", "run is not a function", None],
    ),
    ("an arrow function", "export const Flow = () => {};", ["threw", None, None]),
    ("an object", "export const Flow = { run() {} };", ["threw", None, None]),
    ("a binding that is never initialised", "export let Flow;", ["threw", None, None]),
    (
        "a binding in its dead zone",
        "export { Flow }; await 0; throw new RangeError('top'); let Flow = 1;",
        ["threw", "top", None],
    ),
    (
        "a re-exported binding that the class itself changes",
        f"{CLASS} export {{ Flow }} from './live.js'; import {{ become }} from './live.js'; become(A);",
        RETURNS,
    ),
    (
        "a constructor that gives another object",
        "export function Flow() { return { run: () => ({ ok: 1 }) }; }",
        RETURNS,
    ),
    (
        "a constructor that gives a Proxy",
        f"{CLASS} export function Flow(env) {{ return new Proxy(new A(env), {{}}); }}",
        RETURNS,
    ),
    (
        "a constructor that gives a Proxy whose get trap throws",
        "export function Flow() { return new Proxy({}, { get() { throw new Error('got'); } }); }",
        ["threw", "got", None],
    ),
    (
        "a constructor that gives its class",
        "export function Flow() { return Flow; } Flow.run = () => ({ ok: 1 });",
        RETURNS,
    ),
    (
        "run as a getter",
        "let asked = 0; export class Flow { get run() { asked++; return () => ({ ok: asked }); } }",
        RETURNS,
    ),
    (
        "a getter of run that throws",
        "export class Flow { get run() { throw new Error('no run'); } }",
        ["threw", "no run", None],
    ),
    (
        "an own run that hides the prototype's",
        "export class Flow { constructor() { this.run = 1; } run() { return { ok: 1 }; } }",
        ["threw", "run is not a function", None],
    ),
    (
        "a run that is a callable Proxy",
        f"{CLASS} export class Flow {{}} Flow.prototype.run = new Proxy(function () {{ return {{ ok: 1 }}; }}, {{}});",
        RETURNS,
    ),
    (
        "symbols in every place",
        "export class Flow { [Symbol.toPrimitive]() { throw 1; } get [Symbol.toStringTag]() { throw 2; }"
        " static get [Symbol.hasInstance]() { throw 3; } static get [Symbol.species]() { throw 4; } run() { return { ok: 1 }; } }",
        RETURNS,
    ),
    (
        "a run that returns an object with a symbol",
        "export class Flow { run() { return { ok: 1, [Symbol.iterator]: 1 }; } }",
        ["threw", "run returned no document: the document holds a symbol", None],
    ),
    (
        "a thenable that resolves twice",
        "export class Flow { run() { return { then(yes, no) { yes({ ok: 1 }); yes({ ok: 2 }); no(3); throw 4; } }; } }",
        RETURNS,
    ),
    (
        "a thenable that resolves with a thenable",
        "export class Flow { run() { return { then: (yes) => yes({ then: (also) => also({ ok: 1 }) }) }; } }",
        RETURNS,
    ),
    (
        "a thenable whose then throws after it resolved",
        "export class Flow { run() { return { get then() { return (yes) => { yes({ ok: 1 }); throw new Error('late'); }; } }; } }",
        RETURNS,
    ),
    (
        "a getter of then that throws",
        "export class Flow { run() { return { get then() { throw new Error('then'); } }; } }",
        ["threw", "then", None],
    ),
    (
        "a promise of a foreign constructor that resolves by itself",
        "export class Flow { run() { const p = Promise.resolve({ ok: 1 }); p.constructor = { [Symbol.species]: class {"
        " constructor(f) { f((v) => v, (e) => e); } } }; return p; } }",
        RETURNS,
    ),
    (
        "a promise whose constructor throws",
        "export class Flow { run() { const p = Promise.resolve({ ok: 1 });"
        " Object.defineProperty(p, 'constructor', { get() { throw new Error('made'); } }); return p; } }",
        ["threw", "made", None],
    ),
    (
        "a promise whose then lies",
        "export class Flow { run() { const p = Promise.reject(new Error('real')); p.then = (yes) => yes({ ok: 2 }); return p; } }",
        ["threw", "real", None],
    ),
    (
        "a thrown Proxy that throws when it is read",
        "export class Flow { run() { throw new Proxy({}, { get() { throw 1; }, getOwnPropertyDescriptor() { throw 2; },"
        " getPrototypeOf() { throw 3; } }); } }",
        ["threw", "a thrown value without a message", None],
    ),
    (
        "a thrown Proxy without end",
        "const next = () => new Proxy({}, { getPrototypeOf: next, getOwnPropertyDescriptor: () => undefined });"
        " export class Flow { run() { throw next(); } }",
        ["threw", "a thrown value without a message", None],
    ),
    (
        "a result whose traps start a step when it is read",
        "export class Flow { run(event, step) { return new Proxy({}, { ownKeys() { step.do('late', () => ({})); return []; } }); } }",
        ["return", "{}"],
    ),
    (
        "an array whose length is an object",
        "export class Flow { run() { return { a: new Proxy([], { ownKeys: () => ['length'], getOwnPropertyDescriptor: (t, k) =>"
        " k === 'length' ? { value: { valueOf: () => 0 }, writable: true, enumerable: false, configurable: false }"
        " : { value: 1, enumerable: true, configurable: true, writable: true } }) }; } }",
        ["threw", "run returned no document: the document is larger than 1048576 bytes", None],
    ),
]


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.req("DW-20", "DW-21", "DW-14")
@pytest.mark.parametrize(("source", "end"), [case[1:] for case in ENDS], ids=[case[0] for case in ENDS])
async def test_a_strange_export_or_result_ends_the_run_once(
    shared: ScriptedHost, source: str, end: list[str | None]
) -> None:
    live = "export let Flow; export const become = (to) => { Flow = to; };"
    run = await shared.start({"main.js": source, "live.js": live})
    frame = await run.end()
    assert [frame[0], frame[1] if end[1] is not None else None, *frame[2:]] == end
    await run.started.stop()
    assert run.verbs() == [end[0]]


LOOPS = {
    "a constructor": "export class Flow { constructor() { for (;;); } run() {} }",
    "a construct trap": "export const Flow = new Proxy(class { run() {} }, { construct() { for (;;); } });",
    "a get trap of the class": "export const Flow = new Proxy(class { run() {} }, { get() { for (;;); } });",
    "a get trap of the instance": "export function Flow() { return new Proxy({}, { get() { for (;;); } }); }",
    "a getter of run": "export class Flow { get run() { for (;;); } }",
    "a then that loops": "export class Flow { run() { return { then() { for (;;); } }; } }",
    "a getter of then": "export class Flow { run() { return { get then() { for (;;); } }; } }",
    "a thenable that resolves with itself without end": (
        "export class Flow { run() { const t = { then(yes) { yes({ then: t.then }); } }; return t; } }"
    ),
    "ownKeys of a result": "export class Flow { run() { return new Proxy({}, { ownKeys() { for (;;); } }); } }",
    "a descriptor of a result": (
        "export class Flow { run() { return new Proxy({ a: 1 }, { getOwnPropertyDescriptor() { for (;;); } }); } }"
    ),
    "a prototype of a step's result": (
        "export class Flow { async run(e, step) { await step.do('a', () => ({ b: new Proxy({}, { getPrototypeOf() { for (;;); } }) })); } }"
    ),
    "a trap of a retry policy": (
        "export class Flow { async run(e, step) { await step.do('a', () => {}, new Proxy({}, { ownKeys() { for (;;); } })); } }"
    ),
    "a trap of a thrown value": (
        "export class Flow { run() { throw new Proxy({}, { getOwnPropertyDescriptor() { for (;;); } }); } }"
    ),
    "a trap of a printed value": (
        "export class Flow { run() { console.log(new Proxy({}, { ownKeys() { for (;;); } })); } }"
    ),
    "a getter on a polluted prototype": (
        "Object.defineProperty(Promise.prototype, 'constructor', { get() { for (;;); } });"
        "export class Flow { async run(e, step) { await step.do('a', () => {}); } }"
    ),
    "the top of the module": "for (;;); export class Flow { run() {} }",
    "a completed step asked for without end": (
        "export class Flow { async run(e, step) { for (;;) await step.do('a', () => {}); } }"
    ),
}


@pytest.mark.req("DW-39", "DW-21")
@pytest.mark.parametrize("where", LOOPS)
async def test_a_loop_in_any_place_is_the_watchdogs_and_nobody_elses(pools: Pools, where: str) -> None:
    host = await pools.open(PoolSettings(2, context_cpu_limit_s=0.3, stop=PATIENT))
    other = await host.run("await new Promise((r) => setTimeout(r, 100)); return { ok: 1 };", instance_id="other")
    run = await host.start(LOOPS[where])
    evidence, why = await run.loss()
    assert (evidence.kind, evidence.exit_status, evidence.is_own_fault) == ("exit", -9, True)
    assert why.startswith("the code ran for 0.3 s of processor time without a pause")
    assert await other.result() == {"ok": 1}


# (memory 1 1 shared), "wait": an atomic wait without end, "spin": a loop without end
WASM = bytes.fromhex(
    "0061736d0100000001040160000003030200000504010301010"
    "70f020477616974000004737069"
    "6e00010a17020d0041004100427ffe0102001a0b070003400c000b0b"
)


@pytest.mark.req("DW-39", "MW-13")
async def test_webassembly_can_spin_until_the_watchdog_comes_and_cannot_block(pools: Pools) -> None:
    host = await pools.open(PoolSettings(2, context_cpu_limit_s=0.3, stop=PATIENT))
    source = "import wasm from '/app/code.wasm'; const { exports } = new WebAssembly.Instance(wasm); export class Flow { run() { BODY } }"

    def calling(name: str) -> dict[str, str | bytes]:
        body = f"try {{ exports.{name}(); }} catch (error) {{ return {{ error: error.name }}; }}"
        return {"main.js": source.replace("BODY", body), "code.wasm": WASM}

    assert await (await host.start(calling("wait"))).result() in ({"error": "TypeError"}, {"error": "RuntimeError"})
    evidence, why = await (await host.start(calling("spin"))).loss()
    assert (evidence.exit_status, why.startswith("the code ran for 0.3 s")) == (-9, True)


QUIET = {
    "a promise that never settles": "export class Flow { run() { return new Promise(() => {}); } }",
    "a thenable that never settles": "export class Flow { run() { return { then() {} }; } }",
    "an effect that never settles": "export class Flow { async run(e, step) { await step.do('a', () => ({ then() {} })); } }",
    "a module that never ends": "await new Promise(() => {}); export class Flow { run() {} }",
}


@pytest.mark.req("DW-39", "DW-17")
@pytest.mark.parametrize("where", QUIET)
async def test_what_never_settles_waits_and_is_stopped_by_ack(host: ScriptedHost, where: str) -> None:
    run = await host.start(QUIET[where])
    other = await host.run("return { ok: 1 };", instance_id="other")
    assert await other.result() == {"ok": 1}
    if where != "a module that never ends":  # the engine itself refuses this one
        assert not run.ended.done() and not run.lost.done()
        assert (await run.started.stop()).kind == "ack"
