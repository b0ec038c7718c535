"""One accepted connection: Hypercorn's reading loop with deadlines on heads and writes. Knows no request."""

import asyncio
from contextlib import suppress

from hypercorn.asyncio.task_group import TaskGroup
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config
from hypercorn.events import Event, RawData, Updated
from hypercorn.typing import AppWrapper

from emulator.front.limits import FrontLimits
from emulator.front.protocol import Address, StrictProtocol, Surroundings
from emulator.front.refusals import Refusal, RefusalWriter

_READ_BYTES = 64 * 1024


class Connection(TCPServer):
    """Await `run`; it returns when the connection is over."""

    protocol: StrictProtocol  # type: ignore[assignment]

    def __init__(
        self,
        app: AppWrapper,
        config: Config,
        context: WorkerContext,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        limits: FrontLimits,
        write_refusal: RefusalWriter,
    ) -> None:
        super().__init__(app, asyncio.get_running_loop(), config, context, {}, reader, writer)
        self._limits = limits
        is_tls = writer.get_extra_info("ssl_object") is not None
        self._around = Surroundings(
            app, config, context, is_tls, self.protocol_send, self._linger, writer.is_closing, limits, write_refusal
        )

    async def run(self) -> None:
        """Serve requests until either side ends. Raises nothing that a client can cause."""
        client, server = self._address("peername"), self._address("sockname")
        try:
            async with TaskGroup(self.loop) as task_group:
                self._task_group = task_group
                self.protocol = StrictProtocol(self._around, client, server, task_group)
                await self.idle_task.restart(task_group, self._idle_timeout)
                await self._read_data()
                await self.idle_task.stop()
        except OSError:
            pass  # the client is gone
        finally:
            await self._close()

    def forget(self) -> None:
        """Let go of everything: connection and protocol know each other, and buffers would wait for the collector."""
        self._cut()
        vars(self).clear()

    def _cut(self) -> None:
        with suppress(AttributeError):  # of a TLS connection that is closed already, in Python before 3.11.5
            self.writer.transport.abort()

    async def protocol_send(self, event: Event) -> None:
        """Write, or learn that there is nothing more to write; a client that takes nothing is cut off."""
        if isinstance(event, Updated) and self.reader.at_eof():
            return  # nothing more comes, there is nothing to wait for
        if isinstance(event, RawData) and self.writer.is_closing():
            return  # nobody is there to take it
        try:
            async with asyncio.timeout(self._limits.write_s if isinstance(event, RawData) else None):
                await super().protocol_send(event)
        except TimeoutError:
            self._cut()

    async def _close(self) -> None:
        """Say farewell, at most for a while; a client that does not listen is cut off."""
        try:
            self.writer.close()
            async with asyncio.timeout(self._limits.linger_s):
                await self.writer.wait_closed()
        except (OSError, TimeoutError) as error:
            error.__traceback__ = None  # its frames hold the writer, which holds the error
            self._cut()
        finally:
            await self.idle_task.stop()

    async def _idle_timeout(self) -> None:
        """End a connection on which no request comes, or only a part of one."""
        limit_s = self._limits.head_s if self.protocol.is_in_head else self._limits.idle_s
        try:
            async with asyncio.timeout(limit_s):
                await self.context.terminated.wait()
        except TimeoutError:
            if self.protocol.is_in_head:
                await asyncio.shield(self._refuse_slow_head())
        await asyncio.shield(self._initiate_server_close())

    async def _refuse_slow_head(self) -> None:
        await self.protocol.refuse(Refusal(408, f"the request's head took longer than {self._limits.head_s:g} s"))

    async def _linger(self) -> None:
        """Read and drop what is under way, until a pause. Only for the task that reads."""
        end_s = self.loop.time() + self._limits.linger_s
        try:
            while (now_s := self.loop.time()) < end_s:
                async with asyncio.timeout_at(min(end_s, now_s + self._limits.pause_s)):
                    if not await self.reader.read(_READ_BYTES):
                        return
        except (OSError, TimeoutError):
            return

    def _address(self, name: str) -> Address:
        found = self.writer.get_extra_info(name)
        return None if found is None else (str(found[0]), int(found[1]))
