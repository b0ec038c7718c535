"""What `import()` of app code reaches, on real workerd: the modules of the bundle, by the rules of static imports."""

import pytest

from host.model.json import JsonValue
from tests.emulator.runtime.gateways import Ingress, handler

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


@pytest.mark.req("MW-11", "MW-12", "MW-13")
async def test_dynamic_imports_resolve_as_static_ones_and_reject_by_name(ingress: Ingress) -> None:
    await ingress.serve((await ingress.version("a", BUNDLE), 10000))
    for origin, specifier, expected in DYNAMIC:
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
