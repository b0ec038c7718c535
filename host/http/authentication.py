"""Who sends a request. An authenticator is an object of the composition root's choice; it knows no file."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from starlette.datastructures import Headers

from host.model.digest import sha256_hex
from host.model.errors import CallerError, ErrorCode
from host.model.records import Principal

_BEARER = re.compile(r"bearer +([A-Za-z0-9._~+/-]+=*) *", re.IGNORECASE)


class Authenticator(Protocol):
    """Turns headers into a stable identity (HA-21, HA-22)."""

    @property
    def schemes(self) -> Sequence[str]:
        """Scheme names for discovery, at least one."""

    def authenticate(self, headers: Headers) -> Principal:
        """Raises `CallerError` with `unauthenticated`, or `HostError` when nobody can tell now."""

    def known_principals(self) -> Collection[str]:
        """Ids of everybody that it could name. Raises `HostError` when nobody can tell now."""


class NoAuthentication:
    """Everybody is the principal `local`: only behind a loopback bind (HA-21)."""

    schemes: Sequence[str] = ("None",)

    def __init__(self, principal: str = "local") -> None:
        self._principal = Principal(principal)

    def authenticate(self, headers: Headers) -> Principal:
        return self._principal

    def known_principals(self) -> Collection[str]:
        return (self._principal.id,)


@dataclass(frozen=True, slots=True)
class TokenTable:
    """Principals by the SHA-256 (hex) of each of their tokens: a token itself is kept nowhere. `named` has the ids of
    all, those without a token now, too."""

    principals: Mapping[str, Principal]
    named: frozenset[str] = frozenset()

    def find(self, token: str) -> Principal | None:
        return self.principals.get(sha256_hex(token.encode("ascii")))


class TokenAuthentication:
    """Bearer tokens; `table` is asked at each request, so that a revoked token ends at once (HA-52)."""

    schemes: Sequence[str] = ("Bearer",)

    def __init__(self, table: Callable[[], TokenTable]) -> None:
        self._table = table

    def authenticate(self, headers: Headers) -> Principal:
        values = headers.getlist("authorization")
        match = _BEARER.fullmatch(values[0]) if len(values) == 1 else None
        principal = None if match is None else self._table().find(match[1])
        if principal is None:
            raise CallerError(ErrorCode.UNAUTHENTICATED, "send one right token: Authorization: Bearer TOKEN")
        return principal

    def known_principals(self) -> Collection[str]:
        return self._table().named
