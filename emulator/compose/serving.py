"""Runs an ASGI app on a listening socket and proves that it answers. Knows no app."""

import asyncio
import socket
import ssl
from typing import Any

from emulator.compose.authority import ServerIdentity
from emulator.compose.listeners import address_of
from emulator.front import FrontLimits, HttpListener, RefusalWriter

_PROBE_S = 20.0


class Server:
    """One listener being served; `stop` drains it."""

    def __init__(
        self,
        app: Any,
        listener: socket.socket,
        write_refusal: RefusalWriter,
        limits: FrontLimits,
        identity: ServerIdentity | None = None,
    ) -> None:
        self._address = address_of(listener)
        self._identity = identity
        tls = None if identity is None else _server_tls(identity)
        self._front = HttpListener(app, listener, tls, limits, write_refusal)
        self._task = asyncio.create_task(self._front.serve(), name=f"serve {self._address}")

    async def answers(self, path: str) -> None:
        """Return once a GET of `path` gave an HTTP answer. Raises what stopped the server, or `OSError`."""
        client = None if self._identity is None else ssl.create_default_context(cafile=self._identity.ca)
        probe = asyncio.create_task(probe_http(self._address, path, client))
        await asyncio.wait({probe, self._task}, return_when=asyncio.FIRST_COMPLETED)
        if not probe.done():
            probe.cancel()
            await self._task
            raise OSError(f"the server on {self._address} ended at once")
        probe.result()

    async def stop(self) -> None:
        """Take no more connections, let requests finish for a while, end."""
        self._task.cancel()
        await asyncio.wait({self._task})
        await self._front.drain()


async def probe_http(address: str, path: str, tls: ssl.SSLContext | None, host: str | None = None) -> int:
    """Status of one GET. Raises `OSError`, `TimeoutError` when nothing speaks HTTP there."""
    name, _, port = address.rpartition(":")
    async with asyncio.timeout(_PROBE_S):
        reader, writer = await asyncio.open_connection(name, int(port), ssl=tls)
        try:
            head = f"GET {path} HTTP/1.1\r\nHost: {host or address}\r\nConnection: close\r\n\r\n"
            writer.write(head.encode())
            status_line = await reader.readline()
        finally:
            writer.close()
    words = status_line.split()
    if len(words) < 2 or not words[0].startswith(b"HTTP/"):
        raise OSError(f"{address} does not speak HTTP")
    return int(words[1])


def _server_tls(identity: ServerIdentity) -> ssl.SSLContext:
    """HTTP/1.1 is all that is offered."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    context.load_cert_chain(identity.certificate, identity.key)
    return context
