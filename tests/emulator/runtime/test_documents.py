"""What is a document and what is not, decided in a real isolate whose app has polluted its builtins beforehand (DW-14)."""

import pytest

from tests.emulator.runtime.conftest import ScriptedHost

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.req("DW-14")]

POLLUTION = """
const DP = Object.defineProperty; let ran = 0; const evil = () => { ran++; return "evil"; };
for (const k of ["get", "set", "value", "enumerable", "toJSON", "0", "1", "length", "object", "next", "keys"]) {
  DP(Object.prototype, k, { __proto__: null, configurable: true, get: evil, set(v) { DP(this, k, { __proto__: null, value: v,
    writable: true, enumerable: true, configurable: true }); } });
}
JSON.stringify = evil; JSON.parse = evil; Array.isArray = evil; Array.prototype.sort = evil; Array.prototype.join = evil;
Array.prototype.toJSON = evil; Set.prototype.has = evil; Set.prototype.add = evil; String.prototype.isWellFormed = evil;
Object.getPrototypeOf = evil; Reflect.ownKeys = evil; Reflect.getOwnPropertyDescriptor = evil; Number.isFinite = evil;
DP(Array.prototype, "constructor", { __proto__: null, get: evil });
"""

CANONICAL = [
    ("({})", "{}"),
    ("({ b: 1, a: [null, true, false, -0, 1e21, 0.1, 1e-7] })", '{"a":[null,true,false,0,1e+21,0.1,1e-7],"b":1}'),
    ("Object.create(null)", "{}"),
    ("({ __proto__: null, n: { __proto__: null } })", '{"n":{}}'),
    ("({ '\\u20ac': 1, '\\r': 2, '1': 3, '\\u{1f600}': 4, '\\ufb33': 5 })", '{"\\r":2,"1":3,"€":1,"😀":4,"\ufb33":5}'),
    ("({ s: '\\u0000\\u001f\\\"\\\\/\\u2028\\ud83d\\ude00' })", '{"s":"\\u0000\\u001f\\"\\\\/\u2028😀"}'),
    ("{ const s = { x: 1 }; ({ a: s, b: [s, s] }) }", '{"a":{"x":1},"b":[{"x":1},{"x":1}]}'),
    ('JSON0(\'{"__proto__":{"a":1},"then":2}\')', '{"__proto__":{"a":1},"then":2}'),
    ("new Proxy({ a: 1 }, { __proto__: null })", '{"a":1}'),
    ("({ p: new Proxy([1, 2], { __proto__: null }) })", '{"p":[1,2]}'),
    ("Object0.fromEntries(Array0.from({ __proto__: null, length: 1024 }, (_, i) => ['k' + (1000 + i), 0]))", None),
    ("({ s: 'x'.repeat(1048576 - 8) })", None),
    ("{ let d = {}; for (let i = 0; i < 100000; i++) d = { d }; d }", None),
]

REFUSED = [
    ("1", "no object at its root"),
    ("'text'", "no object at its root"),
    ("null", "no object at its root"),
    ("[]", "no object at its root"),
    ("new Date(0)", "an object that is not plain"),
    ("new Map()", "an object that is not plain"),
    ("new (class A {})()", "an object that is not plain"),
    ("Object0.create({})", "an object that is not plain"),
    ("({ n: new Number(1) })", "an object that is not plain"),
    ("({ a: class extends Array {}, b: 1 })", "a function"),
    ("({ a: new (class extends Array {})() })", "an array with another prototype"),
    ("({ get a() { ran++; return 1 } })", "an accessor"),
    ("({ a: [Object0.defineProperty({}, 'x', { __proto__: null, get: () => 1, enumerable: true })] })", "an accessor"),
    ("({ toJSON() { ran++; return {} } })", "a function"),
    ("({ [Symbol.iterator]: 1 })", "a symbol"),
    ("({ a: Symbol() })", "a symbol"),
    ("({ a() {} })", "a function"),
    ("({ a: 1n })", "a bigint"),
    ("({ a: undefined })", "undefined inside"),
    ("({ a: [undefined] })", "undefined inside"),
    ("({ a: [1, , 2] })", "a hole or an extra array property"),
    ("({ a: new Array0(5) })", "a hole or an extra array property"),
    ("({ a: Object0.assign([1], { x: 1 }) })", "a hole or an extra array property"),
    ("({ a: Object0.assign([1, , ], { x: 1 }) })", "a hole"),
    ("Object0.defineProperty({}, 'a', { __proto__: null, value: 1 })", "a property that is not enumerable"),
    ("({ a: NaN })", "a number that is not finite"),
    ("({ a: -Infinity })", "a number that is not finite"),
    ("({ a: '\\ud800' })", "a lone surrogate"),
    ("({ '\\udc00': 1 })", "a lone surrogate"),
    ("{ const c = {}; c.c = c; c }", "a cycle"),
    ("{ const c = [[]]; c[0][0] = c; ({ c }) }", "a cycle"),
    (
        "Object0.fromEntries(Array0.from({ __proto__: null, length: 1025 }, (_, i) => [i, 0]))",
        "more than 1024 properties",
    ),
    (
        "({ n: Object0.fromEntries(Array0.from({ __proto__: null, length: 1025 }, (_, i) => [i, 0])) })",
        "1024 properties",
    ),
    ("new Proxy({}, { __proto__: null, ownKeys() { throw new Error('trap') } })", "a Proxy that throws"),
    ("({ s: 'x'.repeat(1048576) })", "the document is larger than 1048576 bytes"),
    ("({ s: '\\u20ac'.repeat(350000) })", "the document is larger than 1048576 bytes"),
    (
        "{ let d = {}; for (let i = 0; i < 30; i++) d = { a: d, b: d, c: d }; d }",
        "the document is larger than 1048576 bytes",
    ),
]


def program(document: str) -> str:
    """A `Flow` whose only step gives the value of a JavaScript expression, or of the last one in a block."""
    made = document
    if document.startswith("{"):
        statements, last = document[1:-1].rsplit(";", 1)
        made = f"(() => {{ {statements}; return {last}; }})()"
    return (
        "const JSON0 = JSON.parse, Object0 = { ...Object, create: Object.create, assign: Object.assign, fromEntries:"
        " Object.fromEntries, defineProperty: Object.defineProperty }, Array0 = Array;"
        # The engine loads what formats a line at the first one: that is no reading of a document.
        f"console.log('first'); {POLLUTION} export class Flow {{ async run(event, step) {{ const made = {made}; ran = 0;"
        " try { await step.do('a', () => made); } catch {} throw 'ran ' + ran; } }"
    )


@pytest.mark.parametrize(("document", "text"), CANONICAL, ids=[f"document{n}" for n in range(len(CANONICAL))])
async def test_a_document_becomes_its_canonical_text(shared: ScriptedHost, document: str, text: str | None) -> None:
    run = await shared.start(program(document))
    assert await run.end() == ["threw", "ran 0", None]
    assert run.verbs() == ["begin", "done", "threw"], run.frames[1]
    if text is not None:
        assert run.frames[1][4] == text
    await run.started.stop()


@pytest.mark.parametrize(("document", "why"), REFUSED, ids=[f"refused{n}" for n in range(len(REFUSED))])
async def test_anything_else_is_refused_and_no_getter_runs(shared: ScriptedHost, document: str, why: str) -> None:
    run = await shared.start(program(document))
    assert await run.end() == ["threw", "ran 0", None]
    assert run.verbs() == ["begin", "failed", "threw"]
    assert why in str(run.frames[1][4])
    await run.started.stop()
