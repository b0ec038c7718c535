"""A TLS server of the tests' own that counts every connection made to it, and how a test reaches it."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from emulator.artifacts import AllowedOrigin, Origin
from emulator.compose.authority import server_identity
from emulator.compose.certificates import issue_server

OK = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s"


def ok(body: bytes) -> bytes:
    return OK % (len(body), body)


@dataclass
class TestOrigin:
    """Answers every request with `answer`, or by its path from `answers`; what was asked of it is in `requests`."""

    __test__ = False

    ca: Path
    answer: bytes = b""
    port: int = 0
    connections: int = 0
    requests: list[bytes] = field(default_factory=list)
    stays_open: bool = False
    answers: dict[str, bytes] = field(default_factory=dict)

    def allowed(self, token: Path | None = None, host: str = "localhost") -> AllowedOrigin:
        return AllowedOrigin(Origin(host, self.port), token, self.ca)

    def url(self, path: str = "/worker.js", host: str = "localhost") -> str:
        return f"https://{host}:{self.port}{path}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            self.requests.append(await reader.readuntil(b"\r\n\r\n"))
            path = self.requests[-1].split(b" ", 2)[1].decode()
            writer.write(self.answers.get(path, self.answer))
            await writer.drain()
            if self.stays_open:
                await reader.read()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def origin(folder: Path, names: Sequence[str] | None = None) -> AsyncIterator[TestOrigin]:
    """A running origin on every loopback address; its certificate is good for localhost or for `names`."""
    identity = server_identity(folder)
    if names is not None:
        issued = issue_server(identity.ca.read_bytes(), (folder / "ca.key").read_bytes(), names, datetime.now(UTC))
        identity.certificate.write_bytes(issued.certificate)
        identity.key.write_bytes(issued.key)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(identity.certificate, identity.key)
    running = TestOrigin(identity.ca)
    server = await asyncio.start_server(running.serve, "127.0.0.1", 0, ssl=tls)
    running.port = server.sockets[0].getsockname()[1]
    async with server:
        yield running


@asynccontextmanager
async def listener(*addresses: str) -> AsyncIterator[list[str]]:
    """A plain listener on one port of every given address; the list grows by each connection. First entry: the port."""
    seen: list[str] = []

    async def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(str(writer.get_extra_info("sockname")))
        writer.close()

    first = await asyncio.start_server(note, addresses[0], 0)
    port = first.sockets[0].getsockname()[1]
    others = [await asyncio.start_server(note, address, port) for address in addresses[1:]]
    seen.append(str(port))
    try:
        yield seen
    finally:
        for server in (first, *others):
            server.close()
