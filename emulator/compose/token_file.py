"""Principals and the hashes of their tokens, in a TOML file that its owner edits while the host runs (HA-22, HA-52).

    [principals.alice]
    tokens = ["sha256:<64 hex digits>", "sha256:<64 hex digits>"]   # several: one is replaced without a gap
    spaces = ["prod", "test"]                                     # or "*": all of alice's Spaces
    rights = ["read", "change", "refer"]

Knows no request.
"""

import logging
import secrets
import tomllib
from pathlib import Path
from typing import Any

from emulator.compose.authority import write_private
from emulator.compose.errors import SurroundingsWrong
from host.http.authentication import Authenticator, NoAuthentication, TokenAuthentication, TokenTable
from host.model.digest import is_sha256_hex, sha256_hex
from host.model.errors import ErrorCode, HostError
from host.model.ids import is_identifier
from host.model.records import Principal, Right

_PREFIX = "sha256:"
_MEMBERS = {"tokens", "spaces", "rights"}
_log = logging.getLogger(__name__)


class TokenFileWrong(ValueError):
    """The file does not say what it must; `str()` says where."""


def parse_table(text: str) -> TokenTable:
    """Raises `TokenFileWrong`."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise TokenFileWrong(str(error)) from None
    entries = document.get("principals", {})
    if document.keys() - {"principals"} or not isinstance(entries, dict):
        raise TokenFileWrong("there is something besides [principals.NAME]")
    table: dict[str, Principal] = {}
    for name, entry in entries.items():
        principal, digests = _principal(name, entry)
        for digest in digests:
            if table.setdefault(digest, principal) is not principal:
                raise TokenFileWrong(f"principals.{name} has a token of another principal")
    return TokenTable(table, frozenset(entries))


def _principal(name: str, entry: Any) -> tuple[Principal, list[str]]:
    where = f"principals.{name}"
    if not is_identifier(name):
        raise TokenFileWrong(f"{where} is no name of a principal")
    if not isinstance(entry, dict) or entry.keys() != _MEMBERS:
        raise TokenFileWrong(f"{where} needs exactly tokens, spaces and rights")
    rights = _strings(entry["rights"], f"{where}.rights")
    if not set(rights) <= set(Right):
        raise TokenFileWrong(f"{where}.rights are among {', '.join(Right)}")
    spaces = None if entry["spaces"] == "*" else frozenset(_strings(entry["spaces"], f"{where}.spaces"))
    if not all(is_identifier(space) for space in spaces or ()):
        raise TokenFileWrong(f"{where}.spaces has a malformed name")
    tokens = _strings(entry["tokens"], f"{where}.tokens")
    digests = [token.removeprefix(_PREFIX) for token in tokens]
    if not all(token.startswith(_PREFIX) and is_sha256_hex(token.removeprefix(_PREFIX)) for token in tokens):
        raise TokenFileWrong(f"{where}.tokens are {_PREFIX}<64 hex digits>")
    return Principal(name, frozenset(map(Right, rights)), spaces), digests


def _strings(value: Any, where: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise TokenFileWrong(f"{where} is not a list of strings")
    return value


class TokenFile:
    """The table as the file says it now: read again whenever the file has changed.

    A file that became wrong or vanished lets nobody in until it is right again, and says so once in the log.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._table: TokenTable | None = None

    @classmethod
    def load(cls, path: Path) -> "TokenFile":
        """Raises `SurroundingsWrong` when the file cannot be used from the start."""
        try:
            parse_table(path.read_text("utf-8"))
        except (OSError, UnicodeDecodeError, TokenFileWrong) as error:
            raise SurroundingsWrong(f"cannot use the token file {path}: {error}") from error
        return cls(path)

    def __call__(self) -> TokenTable:
        """Raises `HostError` while the file is wrong."""
        seen = self._look()
        if seen is None or seen != self._seen:
            self._seen = seen
            self._table = self._read()
        if self._table is None:
            raise HostError(ErrorCode.TEMPORARILY_UNAVAILABLE, "the host cannot tell now who may do what")
        return self._table

    def _look(self) -> tuple[int, int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino

    def _read(self) -> TokenTable | None:
        try:
            return parse_table(self._path.read_text("utf-8"))
        except (OSError, UnicodeDecodeError, TokenFileWrong) as error:
            _log.error("nobody is let in: the token file %s is wrong: %s", self._path, error)
            return None


def authenticator_of(path: Path | None) -> Authenticator:
    """Nobody is asked without a file: the listeners are on loopback alone (HA-21). Raises `SurroundingsWrong`."""
    return NoAuthentication() if path is None else TokenAuthentication(TokenFile.load(path))


def add_token(path: Path, principal: str) -> str:
    """A new token for the principal, whose hash is added to the file; the token itself is stored nowhere.

    A principal that the file does not name is added with all rights in all its Spaces. Raises `SurroundingsWrong`.
    """
    token = secrets.token_urlsafe(32)
    entry = f'"{_PREFIX}{sha256_hex(token.encode("ascii"))}"'
    try:
        text = path.read_text("utf-8") if path.exists() else ""
        known = {each.id for each in parse_table(text).principals.values()} | _named(text)
        added = _with_entry(text, principal, entry) if principal in known else _with_principal(text, principal, entry)
        parse_table(added)
        write_private(path.absolute(), added.encode("utf-8"))
    except (OSError, UnicodeDecodeError, TokenFileWrong) as error:
        raise SurroundingsWrong(f"cannot use the token file {path}: {error}") from error
    return token


def _named(text: str) -> set[str]:
    return set(tomllib.loads(text).get("principals", {}))


def _with_principal(text: str, principal: str, entry: str) -> str:
    if not is_identifier(principal):
        raise TokenFileWrong(f"{principal!r} is no name of a principal")
    start = f"{text.rstrip()}\n\n" if text.strip() else ""
    name = principal if "." not in principal else f'"{principal}"'
    rights = ", ".join(f'"{right}"' for right in Right)
    return f'{start}[principals.{name}]\ntokens = [{entry}]\nspaces = "*"\nrights = [{rights}]\n'


def _with_entry(text: str, principal: str, entry: str) -> str:
    """The text with one more token in the principal's list, everything else as its owner wrote it."""
    lines = text.splitlines()
    headers = (f"[principals.{principal}]", f'[principals."{principal}"]')
    inside = False
    for number, line in enumerate(lines):
        if line.strip().startswith("["):
            inside = line.split("#")[0].strip() in headers
        elif inside and line.split("=")[0].strip() == "tokens":
            head, _, rest = line.partition("[")
            comma = "" if rest.strip().startswith("]") else ", "
            lines[number] = f"{head}[{entry}{comma}{rest.lstrip()}"
            return "\n".join(lines) + "\n"
    raise TokenFileWrong(f"add the hash to principals.{principal} by hand: {entry}")
