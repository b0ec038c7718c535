"""Which spellings of a lifecycle match a stored one, and which texts are storable at all: one table for tests and docs.

`python -m tests.emulator.runstore.exactness` writes the drawn parts of docs/run-store.md anew.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from emulator.runstore.states import draw_diagram, draw_table
from tests.structure.sources import ROOT


class Fate(StrEnum):
    """What becomes of an expectation beside the stored text."""

    MATCHES = "matches"
    DIFFERS = "differs"
    REFUSED = "refused, not strict JSON"
    TOO_DEEP = "not storable"


@dataclass(frozen=True, slots=True)
class Case:
    """A member `x` of the stored lifecycle, the same member of the expected one, and whether they match."""

    title: str
    stored: str
    expected: str
    fate: Fate


def _nested(depth: int) -> str:
    return "[" * depth + "]" * depth


CASES = (
    Case("the same", '{"a":1,"b":2}', '{"a":1,"b":2}', Fate.MATCHES),
    Case("key order", '{"a":1,"b":2}', '{"b":2,"a":1}', Fate.DIFFERS),
    Case("white space between tokens", '{"a": 1,\t"b":\n2}', ' { "a":1,"b" :2 } ', Fate.MATCHES),
    Case("white space in a text", '"a b"', '"a  b"', Fate.DIFFERS),
    Case("1 and 1.0", "1", "1.0", Fate.DIFFERS),
    Case("1 and 1e0", "1", "1e0", Fate.DIFFERS),
    Case("1e0 and 1e0", "1e0", "1e0", Fate.MATCHES),
    Case("1e0 and 1E0", "1e0", "1E0", Fate.DIFFERS),
    Case("1.50 and 1.5", "1.50", "1.5", Fate.DIFFERS),
    Case("0 and -0", "0", "-0", Fate.DIFFERS),
    Case("-0 and -0", "-0", "-0", Fate.MATCHES),
    Case("2^53+1", "9007199254740993", "9007199254740993", Fate.MATCHES),
    Case("2^53+1 and 2^53", "9007199254740993", "9007199254740992", Fate.DIFFERS),
    Case("1e400", "1e400", "1e400", Fate.MATCHES),
    Case("1e400 and 1e401", "1e400", "1e401", Fate.DIFFERS),
    Case("an escape and its letter", r'"\u0041"', '"A"', Fate.DIFFERS),
    Case("an escape of each case", r'"\u00e9"', r'"\u00E9"', Fate.DIFFERS),
    Case("an escaped solidus", r'"\/"', '"/"', Fate.DIFFERS),
    Case("a lone surrogate escape", r'"\ud800"', r'"\ud800"', Fate.MATCHES),
    Case("a pair of escapes and its letter", r'"\ud83d\ude00"', '"😀"', Fate.DIFFERS),
    Case("repeated keys", '{"a":1,"a":2}', '{"a":1,"a":2}', Fate.MATCHES),
    Case("a repeated key left out", '{"a":1,"a":2}', '{"a":1}', Fate.DIFFERS),
    Case("998 arrays inside", _nested(998), _nested(998), Fate.MATCHES),
    Case("999 arrays inside", _nested(999), _nested(999), Fate.TOO_DEEP),
    Case("JSON5: a bare key", "{}", "{a:1}", Fate.REFUSED),
    Case("JSON5: a trailing comma", "[1]", "[1,]", Fate.REFUSED),
    Case("JSON5: single quotes", '"a"', "'a'", Fate.REFUSED),
    Case("JSON5: a comment", "1", "1/**/", Fate.REFUSED),
    Case("JSON5: hexadecimal", "16", "0x10", Fate.REFUSED),
    Case("JSON5: a plus sign", "1", "+1", Fate.REFUSED),
    Case("JSON5: Infinity", "1e400", "Infinity", Fate.REFUSED),
    Case("NaN", "null", "NaN", Fate.REFUSED),
    Case("a leading zero", "1", "01", Fate.REFUSED),
    Case("a raw tab in a text", '"a"', '"\t"', Fate.REFUSED),
)


def draw_exactness() -> str:
    """The table, as Markdown."""
    lines = ["| | stored | expected | |", "| --- | --- | --- | --- |"]
    lines.extend(f"| {c.title} | {_cell(c.stored)} | {_cell(c.expected)} | {c.fate} |" for c in CASES)
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    shown = text.replace("\t", "<TAB>").replace("\n", "<LF>")
    return f"`{shown}`" if len(shown) < 40 else f"`[[...]]` {len(text) // 2} deep"


def write_docs() -> None:
    """Put the drawn parts between their markers."""
    path = ROOT / "docs" / "run-store.md"
    text = path.read_text("utf-8")
    parts = {"diagram": f"```mermaid\n{draw_diagram()}```\n", "table": draw_table(), "exactness": draw_exactness()}
    for name, part in parts.items():
        pattern = rf"(<!-- {name} -->\n).*?(<!-- end -->)"
        text = re.sub(pattern, lambda match, part=part: match[1] + part + match[2], text, flags=re.DOTALL)  # type: ignore[misc]
    path.write_text(text, "utf-8")


if __name__ == "__main__":
    write_docs()
