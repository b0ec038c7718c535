"""Accepts connections on one socket, in bounded number, and ends them in order. Knows no application."""

import asyncio
import logging
import socket
import ssl

from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config
from hypercorn.typing import ASGIFramework

from emulator.front.bodies import BodyGuard
from emulator.front.connection import Connection
from emulator.front.limits import FrontLimits
from emulator.front.refusals import RefusalWriter

_log = logging.getLogger("takohost.front")
_PAUSE_S = 0.1


class HttpListener:
    """An ASGI app on a listening socket; `serve` runs until `stop`."""

    def __init__(
        self,
        app: ASGIFramework,
        listener: socket.socket,
        tls: ssl.SSLContext | None,
        limits: FrontLimits,
        write_refusal: RefusalWriter,
    ) -> None:
        self._app = ASGIWrapper(BodyGuard(app, limits, write_refusal))
        self._listener = listener
        self._tls = tls
        self._limits = limits
        self._write_refusal = write_refusal
        self._config = _configure(limits)
        self._context = WorkerContext(None)
        self._slots = asyncio.Semaphore(limits.connections)
        self._connections: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """Accept until cancelled. A client that has to wait for a free slot waits in the socket's queue."""
        loop = asyncio.get_running_loop()
        while True:
            await self._slots.acquire()
            try:
                accepted, _ = await loop.sock_accept(self._listener)
            except OSError as error:
                self._slots.release()
                _log.error("cannot accept a connection: %s", error.strerror)
                await asyncio.sleep(_PAUSE_S)
                continue
            except asyncio.CancelledError:
                self._slots.release()
                raise
            task = loop.create_task(self._talk(accepted))
            self._connections.add(task)
            task.add_done_callback(self._ended)

    async def drain(self) -> None:
        """Refuse new connections, end idle ones now and the others within `drain_s`."""
        self._listener.close()
        await self._context.terminated.set()
        if self._connections:
            await asyncio.wait(self._connections, timeout=self._limits.drain_s)
        left = [task for task in self._connections if not task.done()]
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=self._limits.drain_s)

    async def _talk(self, accepted: socket.socket) -> None:
        """One connection from its handshake to its end."""
        try:
            reader, writer = await self._open(accepted)
        except (OSError, asyncio.CancelledError):
            accepted.close()  # no TLS, a handshake too slow, or gone already
            return
        connection = Connection(
            self._app, self._config, self._context, reader, writer, self._limits, self._write_refusal
        )
        try:
            await connection.run()
        except (OSError, asyncio.CancelledError):
            pass  # the client is gone, or the listener has waited long enough
        except Exception as error:
            _log.error("a connection ended by %s", _name_of(error))
            _log.debug("where it ended", exc_info=error)
        finally:
            connection.forget()

    async def _open(self, accepted: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        loop = asyncio.get_running_loop()
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reader = asyncio.StreamReader(loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        seconds = None if self._tls is None else self._limits.handshake_s
        transport, _ = await loop.connect_accepted_socket(
            lambda: protocol,
            accepted,
            ssl=self._tls,
            ssl_handshake_timeout=seconds,
            ssl_shutdown_timeout=None if self._tls is None else self._limits.linger_s,
        )
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._connections.discard(task)
        self._slots.release()


def _name_of(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


def _configure(limits: FrontLimits) -> Config:
    config = Config()
    config.alpn_protocols = ["http/1.1"]
    config.include_server_header = False
    config.loglevel = "WARNING"
    config.h11_max_incomplete_size = limits.head_bytes
    config.max_app_queue_size = 2
    config.websocket_max_message_size = 0
    return config
