"""What we rely on in the pinned workerd, asked of it bare: an upgrade that changes any of it fails here first.

None of this is about our code. The walls built on it have their own tests.
"""

import base64
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from emulator.runtime.output_log import OutputLog
from emulator.runtime.platform import Reaper
from emulator.runtime.process import Launcher
from tests.emulator.runtime.probers import OURS, Prober

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.req("MW-11", "MW-15")]

IMPORTABLE = {
    "cloudflare:workers", "cloudflare:sockets", "cloudflare:vectorize", "cloudflare:br",
    "cloudflare:pipelines", "cloudflare:workflows", "cloudflare:node", "cloudflare:ai", "cloudflare:durable-objects",
    "node:process",
}  # fmt: skip
NOT_IMPORTABLE = {
    "node:fs", "node:module", "node:vm", "node:worker_threads", "node:child_process", "node:async_hooks", "node:buffer",
    "process", "fs", "workers", "cloudflare:test", "cloudflare:email", "cloudflare:env", "cloudflare-internal:env", "cloudflare-internal:http",
    "node-internal:process", "workerd:unsafe", "workerd:rpc", "internal:unsafe-eval",
}  # fmt: skip
WASM = bytes.fromhex("0061736d0100000001050160000 17f03020100070501016600000a0601040041 2a0b".replace(" ", ""))
EVALS = {
    "eval": "eval('1')",
    "Function": "new Function('return 1')()",
    "async function": "new (async () => {}).constructor('return 1')",
    "generator": "new (function* () {}).constructor('yield 1')",
    "async generator": "new (async function* () {}).constructor('yield 1')",
    "wasm": "new WebAssembly.Module(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0])) && 1",
    "timer": "setTimeout('globalThis.ran = 1', 0) && 1",
}


@pytest.fixture(scope="session")
def session_launcher(workerd: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    directory = tmp_path_factory.mktemp("probe")
    reaper, log = Reaper(), OutputLog(directory / "log")
    launcher = Launcher(workerd, directory, reaper, log)
    yield launcher
    launcher.close()
    reaper.close()
    log.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def prober(session_launcher: Launcher) -> AsyncIterator[Prober]:
    async with Prober.open(session_launcher) as opened:
        yield opened


async def importable(prober: Prober, names: set[str], flags: tuple[str, ...] = OURS) -> set[str]:
    found = set()
    for name in names:
        if await prober.value(f"import({name!r}).then(() => 'yes', () => 'no')", flags) == "yes":
            found.add(name)
    return found


async def test_the_names_that_code_could_import_are_those_that_are_shadowed_and_node_process(prober: Prober) -> None:
    assert await importable(prober, IMPORTABLE | NOT_IMPORTABLE) == IMPORTABLE


async def test_a_module_of_a_builtins_name_shadows_it_but_for_node_process(prober: Prober) -> None:
    for name in IMPORTABLE:
        told = await prober.value(
            f"import({name!r}).then((m) => m.mine ?? 'theirs')",
            modules={name: "export const mine = 'mine';"},
        )
        assert told == ("theirs" if name == "node:process" else "mine"), name


async def test_node_process_gives_the_real_builtins_so_that_only_the_rewrite_is_in_the_way(prober: Prober) -> None:
    told = await prober.value(
        "import('node:process').then((m) => Object.keys(m.getBuiltinModule('cloudflare:workers')).includes('env'))"
    )
    assert told is True


async def test_the_importable_env_is_empty_with_the_flag_and_full_without(prober: Prober) -> None:
    expression = "import('cloudflare:workers').then((m) => [typeof m.env, Object.keys(m.env ?? {}).length])"
    assert await prober.value(expression) == ["object", 0]


@pytest.mark.parametrize("kind", EVALS)
async def test_text_does_not_become_code_in_a_handler_or_at_the_start(prober: Prober, kind: str) -> None:
    expression = EVALS[kind]
    told = str(await prober.value(expression))
    assert told.startswith(("EvalError", "CompileError", "TypeError")), told
    for place in ("run.js", "late.js"):
        attempt = f"let told; try {{ told = String({expression}); }} catch (e) {{ told = String(e); }}"
        late = "" if place == "run.js" else "await import('./late.js').then((m) => m.told)"
        run = f"{attempt if not late else ''} export default {{ async fetch() {{ return Response.json({late or 'told'}); }} }};"
        modules = {"run.js": run} if not late else {"run.js": run, "late.js": f"{attempt} export {{ told }};"}
        told = str(await prober.ask(modules))
        assert told.startswith(("EvalError", "CompileError", "TypeError")), (place, told)


async def test_without_the_flag_text_becomes_code_at_the_start(prober: Prober) -> None:
    run = "let told; try { told = eval('1 + 1'); } catch (e) { told = String(e); }"
    run += " export default { fetch() { return Response.json(told); } };"
    assert await prober.ask({"run.js": run}, ("disallow_importable_env",)) == 2


async def test_ways_to_other_realms_and_loaders_are_absent(prober: Prober) -> None:
    names = [
        "require",
        "process",
        "ShadowRealm",
        "Worker",
        "SharedWorker",
        "importScripts",
        "module",
        "Buffer",
        "global",
    ]
    assert await prober.value(f"{names!r}.map((n) => typeof globalThis[n])") == ["undefined"] * len(names)


@pytest.mark.parametrize(
    "form",
    [
        'import source m from "node:process"; export const x = m;',
        'import defer * as m from "node:process"; export const x = m;',
        'export const x = import.defer("node:process");',
        'import m from "./late.js" with { type: "json" }; export const x = m;',
        'import m from "./late.js" assert { type: "json" }; export const x = m;',
        "export const x = \\u0069mport('node:process');",
        "export const x = im\\u0070ort('node:process');",
    ],
)
async def test_no_further_form_of_import_is_known_to_the_engine(prober: Prober, form: str) -> None:
    run = "export default { async fetch() { return import('./form.js').then(() => Response.json('loaded')); } };"
    told = await prober.ask({"run.js": run, "form.js": form, "late.js": "export default 1;"})
    assert isinstance(told, dict) and "Error" in str(told["failed"]), told


@pytest.mark.parametrize("name", ["node:process", "cloudflare:workers", "late.js", "c.wasm"])
async def test_a_source_phase_import_gives_nothing(prober: Prober, name: str) -> None:
    expression = f"import.source({name!r}).then((m) => typeof m, String)"
    assert await prober.value(expression, modules={"late.js": "export default 1;"}) == "Error: Not supported"


async def test_media_are_given_as_the_contract_says(prober: Prober) -> None:
    def encoded(kind: str, data: bytes) -> dict[str, object]:
        return {"base64": {kind: base64.b64encode(data).decode()}}

    run = (
        "import text from 'a.txt'; import data from 'b.bin'; import wasm from 'c.wasm';"
        "export default { async fetch() { const again = (await import('b.bin')).default; return Response.json([text,"
        " data instanceof ArrayBuffer, [...new Uint8Array(data)], again === data, wasm instanceof WebAssembly.Module,"
        " new WebAssembly.Instance(wasm).exports.f()]); } };"
    )
    modules = {
        "run.js": run,
        "a.txt": {"text": "t"},
        "b.bin": encoded("data", b"\0\xff"),
        "c.wasm": encoded("wasm", WASM),
    }
    assert await prober.ask(modules) == ["t", True, [0, 255], True, True, 42]  # type: ignore[arg-type]


@pytest.mark.req("DW-39")
async def test_an_aborted_facet_answers_no_more_and_one_that_is_not_keeps_its_state(prober: Prober) -> None:
    run = "let n = 0; export class Main { fetch() { return new Response(String(++n)); } } export default {};"
    told = await prober.ask({"run.js": run}, facet=True)
    assert isinstance(told, list)
    assert told[:2] == ["1", "2"]
    assert told[2] != "3"


async def test_a_hashbang_is_legal_at_the_very_start_only(prober: Prober) -> None:
    for prefix, loads in (("", True), ("\ufeff", False), ("let a;", False), (" ", False)):
        run = prefix + "#!x\nexport default { fetch() { return Response.json('loaded'); } };"
        assert (await prober.ask({"run.js": run}) == "loaded") is loads, prefix
