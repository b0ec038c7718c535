"""The table of module resolution on real workerd: each specifier as an import, an export-from and an `import()`."""

import json

import pytest

from emulator.runtime.compiler import module_kinds
from emulator.runtime.workbench import ModuleRefused
from host.ports import CodeRejected
from tests.emulator.runtime.bundles import Bundler
from tests.emulator.runtime.gateways import Ingress
from tests.emulator.runtime.resolution_cases import (
    CASES,
    DOCUMENT,
    FILES,
    INNER,
    MAIN,
    NOT_FOUND,
    UNSUPPORTED,
    Case,
    render,
)

LOADS = "export const load = (specifier) => import(specifier);"
MAIN_SOURCE = (
    f"import * as inner from './{INNER}'; {LOADS} const loaders = {{ '{MAIN}': load, '{INNER}': inner.load }};"
    "const show = ({ path, default: value }) => path ?? (typeof value === 'string' ? value : value.constructor.name"
    " + (value.byteLength ?? ''));"
    "export default { async fetch(request) { const results = []; for (const [importer, specifier] of await request.json())"
    " results.push(await loaders[importer](specifier).then(show, (e) => e instanceof Error ? e.name : 'no Error'));"
    " return Response.json(results); } };"
)
BUNDLE: dict[str, str | bytes] = {MAIN: MAIN_SOURCE, INNER: LOADS, **FILES}
VALUES = {"raw.bin": "ArrayBuffer2", "empty.wasm": "Module", "city.map": "ArrayBuffer15"}
FORMS = ("import {};", "import x from {};", "export * from {};", "export {{ default }} from {};")


@pytest.mark.req("MW-11", "MW-12")
@pytest.mark.parametrize("form", FORMS)
async def test_static_imports_resolve_as_the_table_says(bundler: Bundler, form: str) -> None:
    async with bundler.compiler.workbench.open_compiler() as bench:
        await bench.set_graph(module_kinds(bundler.graph(BUNDLE)))

        async def resolve(case: Case) -> str:
            try:
                text = await bench.rewrite(case.importer, form.format(json.dumps(case.specifier)).encode())
            except ModuleRefused as refused:
                return refused.reason
            return str(json.loads(text[text.index(b'"') : text.rindex(b'"') + 1])).removeprefix("/app/")

        assert [(case, await resolve(case)) for case in CASES] == [(case, case.result) for case in CASES]


@pytest.mark.req("MW-11", "MW-12", "MW-13")
async def test_dynamic_imports_resolve_as_the_table_says(ingress: Ingress) -> None:
    await ingress.serve((await ingress.version("v1", BUNDLE), 10000))
    answer = await ingress.client.post("/", json=[[case.importer, case.specifier] for case in CASES])
    expected = [(case, VALUES.get(case.result, case.result)) for case in CASES]
    assert list(zip(CASES, answer.json(), strict=True)) == expected


@pytest.mark.req("MW-12")
async def test_a_version_with_a_specifier_that_does_not_resolve_is_rejected_before_it_runs(bundler: Bundler) -> None:
    for specifier, reason in (("./nothing.js", NOT_FOUND), ("./top.js.map", UNSUPPORTED)):
        with pytest.raises(CodeRejected, match=f"^main.js:1: {reason}: "):
            await bundler.verify({**BUNDLE, MAIN: f"import '{specifier}'; throw new Error('ran'); {MAIN_SOURCE}"})


@pytest.mark.req("MW-13")
async def test_each_media_type_is_its_own_kind_of_default_export(ingress: Ingress) -> None:
    source = (
        "import text from './notes.txt'; import bytes from './raw.bin'; import wasm from './counts.wasm';"
        "export default { fetch: () => Response.json([typeof text, text, bytes instanceof ArrayBuffer,"
        " [...new Uint8Array(bytes)], wasm instanceof WebAssembly.Module, WebAssembly.Module.exports(wasm).length]) };"
    )
    # A module whose start function traps: were it instantiated, the Version could not be verified.
    wasm = bytes.fromhex("0061736d01000000 010401600000 03020100 080100 0a05010300000b")
    files: dict[str, str | bytes] = {
        "main.js": source,
        "notes.txt": "\ufeffcaf\u00e9".encode(),
        "raw.bin": bytes(range(256)),
        "counts.wasm": wasm,
    }
    await ingress.serve((await ingress.version("v1", files), 10000))
    assert await ingress.json() == ["string", "\ufeffcaf\u00e9", True, list(range(256)), True, 0]


def test_the_document_is_what_the_table_says() -> None:
    assert render() == DOCUMENT.read_text("utf-8"), "run `make docs`"
