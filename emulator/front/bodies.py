"""ASGI middleware: bodies have a deadline, and an answer before the end of a body reaches a client that still sends.

Hypercorn hands a body over through a short queue. An application that answers without reading leaves it full, and
then neither the connection nor the client gets on; so what is left is taken from the queue here, and dropped.
"""

import asyncio
from typing import Any

from hypercorn.typing import ASGIFramework, ASGIReceiveCallable, ASGISendCallable, Scope

from emulator.front.limits import FrontLimits
from emulator.front.refusals import Refusal, RefusalWriter, headers_of, report

_BODY_FIELDS = frozenset({b"content-length", b"transfer-encoding"})


class BodyGuard:
    """Wraps an application."""

    def __init__(self, app: ASGIFramework, limits: FrontLimits, write_refusal: RefusalWriter) -> None:
        self._app = app
        self._limits = limits
        self._write_refusal = write_refusal

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        """ASGI."""
        if scope["type"] != "http":
            return
        exchange = _Exchange(any(name in _BODY_FIELDS for name, _ in scope["headers"]), receive, send, self._limits)
        await self._app(scope, exchange.receive, exchange.send)
        if exchange.is_too_slow and not exchange.is_answered:
            await self._refuse(scope["scheme"], exchange)

    async def _refuse(self, listener: str, exchange: "_Exchange") -> None:
        refusal = Refusal(408, f"the request's body took longer than {self._limits.body_s:g} s")
        report(refusal, listener)
        body = self._write_refusal(refusal)
        await exchange.send({"type": "http.response.start", "status": refusal.status, "headers": headers_of(body)})
        await exchange.send({"type": "http.response.body", "body": body.content, "more_body": False})


class _Exchange:
    """One request and its answer."""

    def __init__(
        self, has_body: bool, receive: ASGIReceiveCallable, send: ASGISendCallable, limits: FrontLimits
    ) -> None:
        self._receive = receive
        self._send = send
        self._limits = limits
        self._is_read = not has_body
        self._end_s = asyncio.get_running_loop().time() + limits.body_s
        self.is_too_slow = False
        self.is_answered = False

    async def receive(self) -> Any:
        """The next piece of the body; a client that is too slow counts as one that left."""
        if self._is_read:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._end_s):
                message = await self._receive()
        except TimeoutError:
            self.is_too_slow = True
            return {"type": "http.disconnect"}
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            self._is_read = True
        return message

    async def send(self, message: Any) -> None:
        """Pass on; the end of the answer waits for the end of the body, for a while."""
        self.is_answered = True
        is_last = message["type"] == "http.response.body" and not message.get("more_body", False)
        if not is_last or self._is_read:
            await self._send(message)
            return
        part = message.get("body", b"")
        await self._send({"type": "http.response.body", "body": part, "more_body": True})
        discarding = asyncio.create_task(self._discard())
        try:
            await asyncio.wait({discarding}, timeout=0 if self.is_too_slow else self._limits.linger_s)
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            discarding.cancel()

    async def _discard(self) -> None:
        """Take the rest of the body, and the news that the client has left."""
        while not self._is_read:
            message = await self._receive()
            self._is_read = message["type"] == "http.disconnect" or not message.get("more_body", False)
