"""Who sends a request. An authenticator is an object of the composition root's choice."""

from collections.abc import Sequence
from typing import Protocol

from starlette.datastructures import Headers

from host.model.records import Principal


class Authenticator(Protocol):
    """Turns headers into a stable identity (HA-21, HA-22)."""

    @property
    def schemes(self) -> Sequence[str]:
        """Scheme names for discovery, at least one."""

    def authenticate(self, headers: Headers) -> Principal:
        """Raises `CallerError` with `unauthenticated` or `forbidden`."""


class NoAuthentication:
    """Everybody is the principal `local`: only behind a loopback bind (HA-21)."""

    schemes: Sequence[str] = ("None",)

    def __init__(self, principal: str = "local") -> None:
        self._principal = Principal(principal)

    def authenticate(self, headers: Headers) -> Principal:
        return self._principal
