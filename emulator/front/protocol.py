"""Hypercorn's HTTP/1.1 protocol with a strict check before a request gets a stream. Knows no socket.

Hypercorn answers what h11 refuses with an empty body and no log line, takes both length headers, folds methods to
upper case and changes to HTTP/2 or WebSocket on the client's word. Here all of these are refusals.
"""

import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

import h11
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.typing import AppWrapper, ConnectionState, TaskGroup, WorkerContext

from emulator.front.heads import check_head
from emulator.front.limits import FrontLimits
from emulator.front.refusals import Refusal, RefusalWriter, headers_of, refusal_of_status, report


class _ClientGone(Exception):
    """Requests that it had sent ahead are not served any more."""


Address: TypeAlias = tuple[str, int] | None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a connection gives its protocol; `linger` takes what the client still sends, so that it reads a refusal."""

    app: AppWrapper
    config: Config
    context: WorkerContext
    is_tls: bool
    send: Callable[[Event], Awaitable[None]]
    linger: Callable[[], Awaitable[None]]
    is_gone: Callable[[], bool]
    limits: FrontLimits
    write_refusal: RefusalWriter


class StrictProtocol(H11Protocol):
    """One connection's requests, one after the other."""

    def __init__(self, surroundings: Surroundings, client: Address, server: Address, task_group: TaskGroup) -> None:
        around, state = surroundings, ConnectionState({})
        super().__init__(
            around.app, around.config, around.context, task_group, state, around.is_tls, client, server, around.send
        )
        self._around = around
        self._is_head_request = False
        self._is_refused = False
        self.is_in_head = False
        """Whether some bytes of a head have come, and not yet its end."""

    async def handle(self, event: Event) -> None:
        """Take bytes or the end of the connection."""
        if isinstance(event, RawData) and self.stream is None and event.data and not self.is_in_head:
            self.is_in_head = True
            await self.send(Updated(idle=True))
        try:
            await super().handle(event)
        except _ClientGone:
            await self.send(Closed())
        except Refusal as refusal:
            await self.refuse(refusal)
            await self._around.linger()
            await self.send(Closed())

    async def refuse(self, refusal: Refusal) -> None:
        """Answer in place of the application, once; the connection is to be closed afterwards."""
        if self._is_refused:
            return
        self._is_refused, self.is_in_head = True, False
        report(refusal, "https" if self.ssl else "http")
        body = self._around.write_refusal(refusal)
        headers = [*headers_of(body), *self.config.response_headers("h11")]
        await self._send_h11_event(h11.Response(status_code=refusal.status, headers=headers))
        if not self._is_head_request:
            await self._send_h11_event(h11.Data(data=body.content))
        await self._send_h11_event(h11.EndOfMessage())

    async def _check_protocol(self, event: h11.Request) -> None:
        self.is_in_head = False
        if self._around.is_gone():
            raise _ClientGone
        self._is_head_request = event.method == b"HEAD"
        check_head(event, self._around.limits)

    async def _send_error_response(self, status_code: int) -> None:
        error = sys.exception()
        if error is not None:
            error.__traceback__ = None  # a frame of h11 holds the error that holds the frame
        await self.refuse(refusal_of_status(status_code))
        await self._around.linger()
