"""How module specifiers resolve (MW-11, MW-12), as a table: read by the tests, printed into docs/modules.md.

`python -m tests.emulator.runtime.resolution_cases` writes the document.
"""

from dataclasses import dataclass
from pathlib import Path

DOCUMENT = Path(__file__).parents[3] / "docs" / "modules.md"
NOT_FOUND = "module_not_found"
UNSUPPORTED = "unsupported_media_type"
MAIN = "main.js"
INNER = "a/main.js"


def _module(path: str) -> str:
    return f'export const path = "{path}";'


FILES: dict[str, str | bytes] = {
    **{path: _module(path) for path in ("a/b.js", "a/c.js", "top.js", "a%2Fb.js", "größe.js", "a/B.js")},
    "notes.txt": "notes.txt",
    "raw.bin": b"\0\xff",
    "empty.wasm": b"\0asm\1\0\0\0",
    "city.map": "a map of a city",
    "top.js.map": "{}",
}
"""What the bundle has beside the two importers `main.js` and `a/main.js`."""


@dataclass(frozen=True, slots=True)
class Case:
    """`result` is the path of the module, or the reason of the refusal."""

    importer: str
    specifier: str
    result: str
    why: str


_FROM_INNER = (
    ("./b.js", "a/b.js", "from the importer's directory"),
    ("./B.js", "a/B.js", "no case folding: another file"),
    ("../top.js", "top.js", "up"),
    ("../a/b.js", "a/b.js", "up and down"),
    ("/top.js", "top.js", "from the bundle root"),
    ("/a/./b.js", "a/b.js", "`.` stays"),
    ("./../a/.././top.js", "top.js", "segment by segment"),
    ("../notes.txt", "notes.txt", "a text"),
    ("../raw.bin", "raw.bin", "bytes"),
    ("../empty.wasm", "empty.wasm", "WebAssembly"),
    ("../city.map", "city.map", "a file that only ends in .map is no source map"),
    ("../a%2Fb.js", "a%2Fb.js", "no percent-decoding: another file"),
    ("../größe.js", "größe.js", "not only ASCII"),
    ("../top.js.map", UNSUPPORTED, "the source map of a module"),
    ("./C.js", NOT_FOUND, "no case folding"),
    ("./b", NOT_FOUND, "no extension is added"),
    ("./", NOT_FOUND, "no index is guessed"),
    (".", NOT_FOUND, "not a relative form"),
    ("..", NOT_FOUND, "not a relative form"),
    ("../", NOT_FOUND, "a directory"),
    ("/", NOT_FOUND, "the root"),
    ("", NOT_FOUND, "empty"),
    ("./b.js?x", NOT_FOUND, "a query"),
    ("./b.js#x", NOT_FOUND, "a fragment"),
    (".\\b.js", NOT_FOUND, "a backslash"),
    ("./%62.js", NOT_FOUND, "no percent-decoding"),
    ("../../top.js", NOT_FOUND, "out of the bundle"),
    ("/../top.js", NOT_FOUND, "out of the bundle"),
    ("//top.js", NOT_FOUND, "an empty segment"),
    ("..//top.js", NOT_FOUND, "an empty segment"),
    ("./b.js/", NOT_FOUND, "an empty segment"),
    ("./b.js/../nothing.js", NOT_FOUND, "no such module"),
    ("b.js", NOT_FOUND, "bare"),
    ("a/b.js", NOT_FOUND, "bare"),
    ("cloudflare:workers", NOT_FOUND, "bare"),
    ("cloudflare:sockets", NOT_FOUND, "bare"),
    ("node:process", NOT_FOUND, "bare"),
    ("node:async_hooks", NOT_FOUND, "bare"),
    ("workerd:unsafe", NOT_FOUND, "bare"),
    ("node-internal:internal_inspect", NOT_FOUND, "bare"),
    ("cloudflare-internal:workers", NOT_FOUND, "bare"),
    (" ./b.js", NOT_FOUND, "bare: blanks are not trimmed"),
    ("http://example.com/x.js", NOT_FOUND, "a URL"),
    ("https://example.com/x.js", NOT_FOUND, "a URL"),
    ("data:text/javascript,1", NOT_FOUND, "a URL"),
    ("file:///top.js", NOT_FOUND, "a URL"),
    ("/host/prim.js", NOT_FOUND, "of the host, not of the bundle"),
    ("../host/prim.js", NOT_FOUND, "of the host, not of the bundle"),
    ("/app/top.js", NOT_FOUND, "of the host's own naming"),
    ("./__proto__", NOT_FOUND, "no module"),
    ("./constructor", NOT_FOUND, "no module"),
)
_FROM_MAIN = (
    ("./top.js", "top.js", "from the importer's directory"),
    ("./a/b.js", "a/b.js", "down"),
    ("../top.js", NOT_FOUND, "out of the bundle"),
    ("./b.js", NOT_FOUND, "not in this directory"),
)
CASES = (*(Case(INNER, *row) for row in _FROM_INNER), *(Case(MAIN, *row) for row in _FROM_MAIN))

_HEAD = """\
# How modules are found

Written by `make docs` from the tests' own table. Do not edit.

A specifier names a module of the bundle by its exact path in the manifest. `./` and `../` start at the importing module's
directory, `/` at the root of the bundle. `import`, `export ... from` and `import()` go by the same rules. What does not
resolve statically is found before the Version is ready, which then never is; an `import()` rejects with an Error of that
`name`. Import attributes (`with { ... }`) are `unsupported_media_type` in both.

| media type of the file | default export |
| --- | --- |
| `application/javascript+module` | what the module exports |
| `text/plain` | a string; the file must be UTF-8 |
| `application/octet-stream` | an `ArrayBuffer` |
| `application/wasm` | a compiled `WebAssembly.Module`, not instantiated |

The bundle of this table:
"""


def render() -> str:
    """The document."""
    files = ", ".join(f"`{path}`" for path in (MAIN, INNER, *FILES))
    rows = [
        f"| {_shown(case.specifier)} | `{case.importer}` | {_static(case)} | {_dynamic(case)} | {case.why} |"
        for case in CASES
    ]
    head = ["| specifier | importer | `import`, `export from` | `import()` | why |", "| --- | --- | --- | --- | --- |"]
    return "\n".join([_HEAD, files + ".", "", *head, *rows, ""])


def _shown(specifier: str) -> str:
    return f"`{specifier}`" if specifier else "the empty text"


def _static(case: Case) -> str:
    return f"not ready: {case.result}" if case.result in (NOT_FOUND, UNSUPPORTED) else f"`{case.result}`"


def _dynamic(case: Case) -> str:
    return f"rejects: {case.result}" if case.result in (NOT_FOUND, UNSUPPORTED) else f"`{case.result}`"


if __name__ == "__main__":
    DOCUMENT.write_text(render(), "utf-8")
