"""Reads and splices JSON text of any depth without changing a byte that it was not told to.

What SQLite cannot parse is read here instead (RS-62): strictly, without recursion, the first of repeated keys
counting, as in SQLite (RS-01). Knows nothing of runs.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto

_TOKEN = re.compile(
    r'([\[\]{},:])|("(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*")'
    r"|(-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)|(true|false|null)"
)
_QUICKLY_READ = 100  # brackets; far from what exhausts the decoder's recursion
_FILLER = re.compile(r"[ \t\n\r]*")


class NotJsonError(ValueError):
    """The text is not strict JSON; `str()` says where."""


@dataclass(frozen=True, slots=True)
class Child:
    """One member of the outermost object, or element of the outermost array; offsets are in characters."""

    key: str | None
    start: int
    end: int
    whole_start: int
    """Where its key begins; `start` for an element."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The outermost value of a text: `kind` is its first character, `depth` of a scalar is 0."""

    kind: str
    start: int
    end: int
    children: tuple[Child, ...]
    depth: int


class _Expect(Enum):
    VALUE = auto()
    VALUE_OR_END = auto()
    KEY = auto()
    KEY_OR_END = auto()
    COLON = auto()
    COMMA_OR_END = auto()
    NOTHING = auto()


class _Scanner:
    """Walks the tokens of one text with an explicit stack."""

    def __init__(self) -> None:
        self.stack: list[str] = []
        self.expect = _Expect.VALUE
        self.depth = 0
        self.kind = ""
        self.children: list[Child] = []
        self._key: tuple[str, int] | None = None
        self._start = 0

    def take(self, piece: str, start: int, end: int) -> bool:
        """Whether the piece may stand here."""
        if piece in "}]":
            return self._close(piece, end)
        if piece == ",":
            return self._comma()
        if piece == ":":
            allowed, self.expect = self.expect is _Expect.COLON, _Expect.VALUE
            return allowed
        if piece[0] == '"' and self.expect in (_Expect.KEY, _Expect.KEY_OR_END):
            self.expect = _Expect.COLON
            if len(self.stack) == 1:
                self._key = (json.loads(piece), start)
            return True
        return self._value(piece, start, end)

    def _value(self, piece: str, start: int, end: int) -> bool:
        if self.expect not in (_Expect.VALUE, _Expect.VALUE_OR_END):
            return False
        if not self.stack:
            self.kind = piece[0]
        if len(self.stack) == 1:
            self._start = start
        if piece in "{[":
            self.stack.append(piece)
            self.depth = max(self.depth, len(self.stack))
            self.expect = _Expect.KEY_OR_END if piece == "{" else _Expect.VALUE_OR_END
            return True
        self._ended(end)
        return True

    def _close(self, piece: str, end: int) -> bool:
        opening, empty = ("{", _Expect.KEY_OR_END) if piece == "}" else ("[", _Expect.VALUE_OR_END)
        if not self.stack or self.stack[-1] != opening or self.expect not in (empty, _Expect.COMMA_OR_END):
            return False
        self.stack.pop()
        self._ended(end)
        return True

    def _comma(self) -> bool:
        if self.expect is not _Expect.COMMA_OR_END:
            return False
        self.expect = _Expect.KEY if self.stack[-1] == "{" else _Expect.VALUE
        return True

    def _ended(self, end: int) -> None:
        """A value is complete."""
        self.expect = _Expect.COMMA_OR_END if self.stack else _Expect.NOTHING
        if len(self.stack) == 1:
            key, whole_start = self._key if self._key is not None else (None, self._start)
            self.children.append(Child(key, self._start, end, whole_start))
            self._key = None


def scan(text: str) -> Layout:
    """The layout of a strict JSON text of any depth. Raises `NotJsonError`."""
    scanner = _Scanner()
    begin: int | None = None
    end = 0
    for piece, start, end in _tokens(text):
        begin = start if begin is None else begin
        if not scanner.take(piece, start, end):
            raise NotJsonError(f"unexpected {piece[:20]!r} at character {start}")
    if scanner.expect is not _Expect.NOTHING or begin is None:
        raise NotJsonError("the text ends too early")
    return Layout(scanner.kind, begin, end, tuple(scanner.children), scanner.depth)


def _tokens(text: str) -> Iterator[tuple[str, int, int]]:
    position = _end_of_filler(text, 0)
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise NotJsonError(f"no token at character {position}")
        yield found[0], position, found.end()
        position = _end_of_filler(text, found.end())


def _end_of_filler(text: str, position: int) -> int:
    found = _FILLER.match(text, position)
    return position if found is None else found.end()


class Number(str):
    """The text of a number, told from a string."""

    __slots__ = ()


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _first_of_each(pairs: list[tuple[str, object]]) -> dict[str, object]:
    return dict(reversed(pairs))


_DECODER = json.JSONDecoder(
    object_pairs_hook=_first_of_each, parse_int=Number, parse_float=Number, parse_constant=_refuse_constant
)


def most_depth(text: str) -> int:
    """No strict JSON text nests deeper than it has opening brackets."""
    return text.count("{") + text.count("[")


def quick_members(text: str) -> dict[str, object] | None:
    """The first of each member of a small object, numbers as `Number`; None where only `scan` can tell more.

    By the C decoder, thirty times as fast as `scan`. What it accepts is strict JSON: numbers stay text and the three
    constants that JSON has not are refused.
    """
    if most_depth(text) > _QUICKLY_READ:
        return None
    try:
        found = _DECODER.decode(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def minified(text: str) -> str:
    """The text without white space between tokens. Raises `NotJsonError` for a character no token begins with."""
    return "".join(piece for piece, _, _ in _tokens(text))


def child(text: str, *path: str) -> str | None:
    """The text of the first member at a path of keys, or None. `text` is strict JSON."""
    found: str | None = text
    for key in path:
        if found is None:
            return None
        whole = found
        spans = (each for each in scan(whole).children if each.key == key)
        found = next((whole[each.start : each.end] for each in spans), None)
    return found


def children(text: str) -> list[str]:
    """The texts of all elements or member values of the outermost value. `text` is strict JSON."""
    return [text[each.start : each.end] for each in scan(text).children]


def with_members(text: str, members: Mapping[str, str | None]) -> str:
    """An object's text with the first of each member set to a JSON text, or removed (None); the rest is untouched.

    New members come last. Raises `NotJsonError` when the text is not an object.
    """
    layout = scan(text)
    if layout.kind != "{":
        raise NotJsonError("not an object")
    todo = dict(members)
    kept: list[str] = []
    for each in layout.children:
        if each.key in todo:
            value = todo.pop(each.key)
            if value is None:
                continue
            kept.append(text[each.whole_start : each.start] + value)
        else:
            kept.append(text[each.whole_start : each.end])
    kept.extend(f"{json.dumps(key)}:{value}" for key, value in todo.items() if value is not None)
    return "{" + ",".join(kept) + "}"
