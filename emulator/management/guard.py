"""Keeps everybody without the token out, web pages included. Knows no route."""

import hmac
import secrets
from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from emulator.management.errors import refusal

_SCHEME = "bearer "


def new_token() -> str:
    """A fresh token, new at each start."""
    return secrets.token_urlsafe(32)


class Guard:
    """ASGI middleware: the Host header must be ours (a rebound name is not) and the bearer token right."""

    def __init__(self, app: ASGIApp, *, hosts: Collection[str], token: str) -> None:
        self._app = app
        self._hosts = frozenset(hosts)
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if headers.getlist("host") != [headers.get("host", "")] or headers.get("host", "").lower() not in self._hosts:
            await refusal(421, "wrong_host", "this listener answers on its own address only")(scope, receive, send)
        elif not self._is_right(headers.get("authorization", "")):
            answer = refusal(401, "unauthenticated", "send the management token: Authorization: Bearer <token>")
            answer.headers["WWW-Authenticate"] = "Bearer"
            await answer(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _is_right(self, authorization: str) -> bool:
        if authorization[: len(_SCHEME)].lower() != _SCHEME:
            return False
        given = authorization[len(_SCHEME) :].strip().encode("utf-8", "surrogateescape")
        return hmac.compare_digest(given, self._token)
