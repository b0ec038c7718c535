"""A front under test: an ASGI app on a socket of its own, and a client that sends bytes as they are."""

import asyncio
import json
import re
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from emulator.front import FrontLimits, HttpListener, Refusal, RefusalBody

HOST = b"Host: localhost\r\n"
QUICK = FrontLimits(head_s=0.2, body_s=0.3, idle_s=0.4, write_s=0.3, linger_s=0.4, handshake_s=0.3, drain_s=1.0)


def cut(writer: asyncio.StreamWriter) -> None:
    """Abort a connection, whether or not it is closed already."""
    with suppress(AttributeError):  # of one over TLS that is, in Python before 3.11.5
        writer.transport.abort()


@dataclass
class EchoApp:
    """Answers with method, path and size of the body; `/unread` leaves the body alone, `/gate` waits, `/flood` floods."""

    seen: list[str] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    reached: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.seen.append(f"{scope['method']} {scope['path']}")
        self.reached.set()
        size = 0
        if scope["path"] == "/gate":
            await self.gate.wait()
        if scope["path"] != "/unread":
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return
                size += len(message["body"])
                if not message["more_body"]:
                    break
        text = f"{scope['method']} {scope['path']} {size}".encode()
        if scope["path"] == "/flood":
            text = b"x" * 50_000_000
        headers = [(b"content-length", str(len(text)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": text})


def write_refusal(refusal: Refusal) -> RefusalBody:
    return RefusalBody("application/json", json.dumps([refusal.status, refusal.detail]).encode())


@dataclass
class Front:
    app: EchoApp
    listener: HttpListener
    port: int
    serving: "asyncio.Task[None]"
    clients: "list[Client]" = field(default_factory=list)

    async def connect(self, tls: ssl.SSLContext | None = None) -> "Client":
        name = None if tls is None else "localhost"
        client = Client(*await asyncio.open_connection("127.0.0.1", self.port, ssl=tls, server_hostname=name))
        self.clients.append(client)
        return client

    async def ask(self, raw: bytes) -> bytes:
        """Everything that is answered to these bytes until the host closes."""
        client = await self.connect()
        client.writer.write(raw)
        return await client.rest()


@dataclass
class Client:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def rest(self) -> bytes:
        """What still comes, until the end of the connection."""
        try:
            async with asyncio.timeout(5):
                return await self.reader.read()
        finally:
            self.writer.close()

    async def answer(self) -> tuple[int, bytes]:
        """Status and body of the next answer, which has a length."""
        async with asyncio.timeout(5):
            head = await self.reader.readuntil(b"\r\n\r\n")
            lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
            body = await self.reader.readexactly(int(lengths[0].split(b":")[1]))
        return int(head.split()[1]), body


@asynccontextmanager
async def serving(limits: FrontLimits = QUICK, tls: ssl.SSLContext | None = None) -> AsyncIterator[Front]:
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    port = listener.getsockname()[1]
    app = EchoApp()
    front = HttpListener(app, listener, tls, limits, write_refusal)
    task = asyncio.create_task(front.serve())
    served = Front(app, front, port, task)
    try:
        yield served
    finally:
        for client in served.clients:
            cut(client.writer)
        app.gate.set()
        task.cancel()
        await asyncio.wait({task})
        await front.drain()


def statuses(answers: bytes) -> list[int]:
    """The statuses of answers that follow each other."""
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", answers)]


def document(answer: bytes) -> Any:
    return json.loads(answer.partition(b"\r\n\r\n")[2])
