"""The one WebSocket to a workerd process: texts both ways over a unix socket, in order, up to a size. Knows no frame.

Sans-I/O under an asyncio protocol: sending is a plain call and a message is a plain callback, so a step costs no task.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.uri import parse_uri

MAX_MESSAGE_BYTES = 16 * 1024 * 1024


class ChannelClosed(ConnectionError):
    """The other side went away, refused the handshake or broke the protocol."""


class Channel(asyncio.Protocol):
    """An open channel. `on_text` gets every message; `on_close` is called once, after the last one; `fault` says how
    the other side broke the protocol, if it did."""

    def __init__(self, on_text: Callable[[str], None], on_close: Callable[[], None]) -> None:
        self._websocket = ClientProtocol(parse_uri("ws://kernel/"), max_size=MAX_MESSAGE_BYTES)
        self._on_text = on_text
        self._on_close = on_close
        self.fault: str | None = None
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None
        self._fragments: list[bytes] = []
        self._unsent: deque[Iterator[str]] = deque()

    @classmethod
    async def connect(cls, path: Path, on_text: Callable[[str], None], on_close: Callable[[], None]) -> "Channel":
        """Connect to a listening unix socket and finish the handshake. Raises `ChannelClosed`, OSError."""
        loop = asyncio.get_running_loop()
        _, channel = await loop.create_unix_connection(lambda: cls(on_text, on_close), str(path))
        try:
            await channel._opened
        except BaseException:
            channel.abort()
            raise
        return channel

    def send(self, text: str) -> None:
        """Send a message, after those whose parts are under way; after the end it goes nowhere."""
        if self._unsent:
            self._unsent.append(iter((text,)))
        elif self._websocket.state is State.OPEN:
            self._websocket.send_text(text.encode())
            self._flush()

    def send_parts(self, parts: Iterator[str]) -> None:
        """Send a message in parts: the first two are made and sent now, the others one in a turn of the event loop, so
        that nobody waits long for a large message. Later messages wait for it."""
        self._unsent.append(parts)
        if len(self._unsent) == 1:
            self._begin()

    def _begin(self) -> None:
        """Send the next messages, up to one in parts, of which this sends the first."""
        while self._unsent and self._is_open:
            first, second = next(self._unsent[0], ""), next(self._unsent[0], None)
            self._websocket.send_text(first.encode(), fin=second is None)
            self._flush()
            if second is not None:
                asyncio.get_running_loop().call_soon(self._go_on, second)
                return
            self._unsent.popleft()
        self._unsent.clear()

    def _go_on(self, part: str) -> None:
        if not self._unsent or not self._is_open:
            return
        following = next(self._unsent[0], None)
        self._websocket.send_continuation(part.encode(), fin=following is None)
        self._flush()
        if following is not None:
            asyncio.get_running_loop().call_soon(self._go_on, following)
        else:
            self._unsent.popleft()
            self._begin()

    @property
    def _is_open(self) -> bool:
        assert self._transport is not None
        return self._websocket.state is State.OPEN and not self._transport.is_closing()

    def abort(self) -> None:
        """Drop the connection at once; what was not delivered yet is not delivered any more."""
        self._unsent.clear()
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._websocket.send_request(self._websocket.connect())
        self._flush()

    def data_received(self, data: bytes) -> None:
        self._websocket.receive_data(data)
        for event in self._websocket.events_received():
            if isinstance(event, Frame):
                self._receive(event)
            elif self._websocket.handshake_exc is None and not self._opened.done():
                self._opened.set_result(None)
        broken = self._websocket.handshake_exc or self._websocket.parser_exc
        if broken is not None:
            self.fault = str(broken)
            self.abort()
        else:
            self._flush()

    def eof_received(self) -> None:
        self._websocket.receive_eof()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unsent.clear()
        if not self._opened.done():
            self._opened.set_exception(ChannelClosed(str(self._websocket.handshake_exc or "closed before it opened")))
            self._opened.exception()  # whoever waits for it may be gone
            return
        self._on_close()

    def _receive(self, frame: Frame) -> None:
        if frame.opcode in (Opcode.TEXT, Opcode.CONT):
            self._fragments.append(bytes(frame.data))
            if frame.fin:
                message = b"".join(self._fragments)
                self._fragments.clear()
                if self._transport is not None and not self._transport.is_closing():
                    self._on_text(message.decode("utf-8", "replace"))

    def _flush(self) -> None:
        assert self._transport is not None
        for data in self._websocket.data_to_send():
            if data:
                self._transport.write(data)
            else:
                self._transport.close()
