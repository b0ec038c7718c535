"""The compiler on real workerd: static resolution, media types, the parser's hard cases and what lands on disk."""

import hashlib
import json
import re
import shutil
from pathlib import Path

import pytest

from emulator.runtime.compiled_code import ModuleKind, code_digest
from emulator.runtime.workbench import Workbench
from host.ports import CodeRejected
from tests.emulator.runtime.bundles import Bundler
from tests.emulator.runtime.resolution_cases import FILES

DEFAULT = "export default {};"


@pytest.fixture
def workbench(bundler: Bundler) -> Workbench:
    return bundler.compiler.workbench


RESOLVED = ["./b.js", "../top.js", "/a/./b.js", "../notes.txt", "../raw.bin", "../empty.wasm", "../a%2Fb.js"]


def importer(statement: str) -> dict[str, str | bytes]:
    return {**FILES, "main.js": f"import './a/main.js'; {DEFAULT}", "a/main.js": statement}


@pytest.mark.req("MW-11", "MW-13")
async def test_exact_specifiers_resolve_for_import_and_export_from(bundler: Bundler) -> None:
    lines = [f"import '{specifier}';" for specifier in RESOLVED]
    lines += ["export { path } from './b.js';", "export * from '/top.js';", "export * as all from './c.js';"]
    report = await bundler.verify(importer("\n".join(lines)))
    assert report.classes == ()


@pytest.mark.req("MW-11", "MW-12")
async def test_a_refusal_names_path_line_and_specifier(bundler: Bundler) -> None:
    with pytest.raises(CodeRejected) as caught:
        await bundler.verify(importer("\n/* \r\n */ import './nothing.js';"))
    assert str(caught.value) == 'a/main.js:3: module_not_found: no module "./nothing.js" in the bundle'


UNSUPPORTED = [
    "import map from '../top.js.map';",
    "import text from '../notes.txt' with { type: 'text' };",
    "export * from './b.js' with { type: 'javascript' };",
    "export { path } from './b.js' with { type: 'json' };",
]


@pytest.mark.req("MW-11")
@pytest.mark.parametrize("statement", UNSUPPORTED)
async def test_source_maps_and_import_attributes_are_unsupported(bundler: Bundler, statement: str) -> None:
    with pytest.raises(CodeRejected, match=r"^a/main\.js:1: unsupported_media_type: "):
        await bundler.verify(importer(statement))


SYNTAX_ERRORS = [
    "let a = ;",
    "import defer * as x from './b.js';",
    "import source x from './b.js';",
    "import.defer('./b.js');",
    "@decorated class A {}",
    "with (a) {}",
    "<!-- html",
    "export { missing };",
    "let a; let a;",
    "return 1;",
    "\n#!not at the start",
]


@pytest.mark.req("MW-12")
@pytest.mark.parametrize("source", SYNTAX_ERRORS)
async def test_syntax_errors_are_found_before_anything_runs(bundler: Bundler, source: str) -> None:
    with pytest.raises(CodeRejected, match=r"^a/main\.js:\d: syntax_error: "):
        await bundler.verify(importer(source))


@pytest.mark.req("MW-12")
async def test_nesting_that_no_parser_survives_is_a_rejection(bundler: Bundler) -> None:
    with pytest.raises(CodeRejected, match="syntax_error: the code is nested too deeply"):
        await bundler.verify(importer("(" * 200_000))


@pytest.mark.req("MW-12")
async def test_long_sums_are_not_nested_too_deeply(bundler: Bundler) -> None:
    await bundler.verify(importer("const t = 1" + "+1" * 20_000 + "; export { t };"))


@pytest.mark.req("MW-12")
@pytest.mark.parametrize(
    ("path", "data", "reason"),
    [
        ("a.js", b"// \xff", "a.js: invalid UTF-8 at byte 3"),
        ("a.txt", b"ab\xc3", "a.txt: invalid UTF-8 at byte 2"),
        ("a.wasm", b"\0asm\2\0\0\0", "a.wasm: invalid_wasm: not a WebAssembly module"),
        ("a.wasm", b"", "a.wasm: invalid_wasm: not a WebAssembly module"),
    ],
)
async def test_bytes_are_never_read_as_another_media_type(
    bundler: Bundler, path: str, data: bytes, reason: str
) -> None:
    with pytest.raises(CodeRejected) as caught:
        await bundler.verify({"main.js": DEFAULT, path: data})
    assert str(caught.value) == reason


HARD_CASES = [
    ("let f=function(){}\n/import('x')/g", 1),
    ("/import('x')/g", 0),
    ("`${import('x')}`", 1),
    ("`import('x')`", 0),
    ("// import('x')", 0),
    ("'import(\\'x\\')'", 0),
    ("({ import(x) {} }).import('x')", 0),
    ("class A { static import(x) {} }; A.import('x')", 0),
    ("import\n/* ( */ // (\n('x')", 1),
    ("import('x',)", 1),
    ("import(('x'))", 1),
    ("import(import('x'))", 2),
    ("typeof import('x')", 1),
    ("(await import('x'))?.y", 1),
    ("for await (const x of import('x')) {}", 1),
    ("if (1) /import('x')/.test(''); else import('x')", 1),
    ("let x=1,b=2; x<!--b; import('x')", 1),
    ("let a = 1\n++a / import('x') / 2", 1),
    ("const t = async\nimport('x')", 1),
    ("let __tkImport = 1, __tkImport_ = 2; import('x')", 1),
    ("import.meta; import('x')", 1),
    ("{ using x = null; } import('x')", 1),
]


@pytest.mark.req("MW-11")
async def test_every_dynamic_import_and_nothing_else_is_rewritten(workbench: Workbench) -> None:
    async with workbench.open_compiler() as bench:
        await bench.set_graph({"main.js": ModuleKind.JS})
        for source, imports in HARD_CASES:
            text = (await bench.rewrite("main.js", source.encode())).decode()
            assert len(re.findall(r'__tkImport_*[^"]*?\("main\.js",', text)) == imports, text
            assert text.count("\n") == source.count("\n") + (imports > 0)
            assert ("/host/imp.js" in text) == (imports > 0)


@pytest.mark.req("MW-12")
async def test_byte_order_mark_and_hashbang_are_accepted(bundler: Bundler) -> None:
    await bundler.verify(
        {"main.js": b"\xef\xbb\xbf#!/usr/bin/env node\nimport('./x.js').catch(() => 0); export default {};"}
    )


async def test_compiled_code_is_whole_once_it_carries_its_name(bundler: Bundler) -> None:
    files = {"main.js": "import './a.txt'; export default {};", "a.txt": "hi"}
    report = await bundler.verify(files)
    directory = bundler.code_dir / report.code_digest
    assert report.code_digest == code_digest(bundler.graph(files).manifest_sha256)
    rewritten = 'import "/app/a.txt"; export default {};'
    seal, _, index = (directory / "index.json").read_text().partition("\n")
    assert seal == sha256_of(index)
    assert json.loads(index) == {
        "entrypoint": "main.js",
        "modules": [
            {"path": "main.js", "kind": "js", "file": "0", "sha256": sha256_of(rewritten)},
            {"path": "a.txt", "kind": "text", "file": "1", "sha256": sha256_of("hi")},
        ],
    }
    assert (directory / "0").read_text() == rewritten
    assert list((bundler.code_dir / "work").iterdir()) == []
    assert await bundler.verify(files) == report


def sha256_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def damage(directory: Path, how: str) -> None:
    """Do to compiled code what disks and people do."""
    what, _, name = how.partition(" ")
    file = directory / name
    match what:
        case "cut":
            file.write_bytes(file.read_bytes()[:-1])
        case "altered":
            data = bytearray(file.read_bytes())
            data[len(data) // 2] ^= 1
            file.write_bytes(data)
        case "lost":
            file.unlink()
        case _:
            shutil.rmtree(directory)


@pytest.mark.req("WV-08", "MW-12")
@pytest.mark.parametrize(
    "how",
    ["gone", *(f"{what} {name}" for what in ("cut", "altered", "lost") for name in ("0", "index.json", "report.json"))],
)
async def test_damaged_code_is_told_from_whole_code_and_made_again(bundler: Bundler, how: str) -> None:
    files = {"main.js": "import './a.txt'; export default {};", "a.txt": "hi"}
    report = await bundler.verify(files)
    directory = bundler.code_dir / report.code_digest
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    damage(directory, how)
    assert await bundler.verify(files) == report
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before
    assert list((bundler.code_dir / "work").iterdir()) == []


async def test_a_rejected_bundle_leaves_nothing_behind(bundler: Bundler) -> None:
    with pytest.raises(CodeRejected):
        await bundler.verify({"main.js": "throw 1"})
    assert [path.name for path in bundler.code_dir.iterdir()] == ["work"]
    assert list((bundler.code_dir / "work").iterdir()) == []
