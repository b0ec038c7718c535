"""A scanner that accepts RFC 8785 canonical JSON text and nothing else. Builds no value and does not recurse."""

import json
import re

import rfc8785

_STRING = re.compile(r'"(?:[^"\\\x00-\x1f\ud800-\udfff]++|\\(?:["\\bfnrt]|u00(?:0[0-7bef]|1[0-9a-f])))*"')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:e[+-][0-9]+)?")
_LITERALS = ("true", "false", "null")


class NotCanonical(ValueError):
    """The text is not JSON, not canonical, or an object in it is too large."""


class _Container:
    """An open object or array: how many members so far, and the last key as UTF-16 code units."""

    __slots__ = ("count", "is_object", "last_key")

    def __init__(self, is_object: bool) -> None:
        self.is_object = is_object
        self.count = 0
        self.last_key = b""


class _Scanner:
    def __init__(self, text: str, most_properties: int) -> None:
        self._text = text
        self._at = 0
        self._most_properties = most_properties
        self._open: list[_Container] = []

    def run(self) -> None:
        self._value()
        while self._open:
            self._member(self._open[-1])
        if self._at != len(self._text):
            raise self._wrong()

    def _wrong(self) -> NotCanonical:
        return NotCanonical(f"not canonical JSON at character {self._at}")

    def _takes(self, token: str) -> bool:
        if self._text.startswith(token, self._at):
            self._at += len(token)
            return True
        return False

    def _need(self, token: str) -> None:
        if not self._takes(token):
            raise self._wrong()

    def _match(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        if found is None:
            raise self._wrong()
        self._at = found.end()
        return found[0]

    def _value(self) -> None:
        if self._takes("{"):
            self._open.append(_Container(is_object=True))
        elif self._takes("["):
            self._open.append(_Container(is_object=False))
        elif self._text.startswith('"', self._at):
            self._match(_STRING)
        elif not any(self._takes(literal) for literal in _LITERALS):
            self._number()

    def _number(self) -> None:
        token = self._match(_NUMBER)
        try:
            canonical = rfc8785.dumps(float(token)).decode()
        except rfc8785.CanonicalizationError as error:
            raise self._wrong() from error
        if canonical != token:
            raise NotCanonical(f"a number that ends at character {self._at} is not canonical")

    def _member(self, container: _Container) -> None:
        if self._takes("}" if container.is_object else "]"):
            self._open.pop()
            return
        if container.count:
            self._need(",")
        container.count += 1
        if container.is_object:
            self._key(container)
        self._value()

    def _key(self, container: _Container) -> None:
        if container.count > self._most_properties:
            raise NotCanonical(f"an object has more than {self._most_properties} properties")
        key = json.loads(self._match(_STRING)).encode("utf-16-be")
        if container.count > 1 and key <= container.last_key:
            raise NotCanonical(f"a key that ends at character {self._at} is repeated or out of order")
        container.last_key = key
        self._need(":")


def scan(text: str, most_properties: int) -> None:
    """Return when `text` is canonical and no object has more than `most_properties`. Raises `NotCanonical`."""
    _Scanner(text, most_properties).run()
