"""The HTTP way in to Workers: one listening socket, one workerd on it at a time, its table and its successors.

Owns neither weights nor names: whoever does publishes a table. No request passes through here.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import Literal, assert_never

from emulator.contexts import BindingCalls, StopEvidence
from emulator.events import HandlerCall, HandlerEnd
from emulator.runtime import handler_calls
from emulator.runtime.gateway_process import GatewayEnded, GatewayProcess
from emulator.runtime.gateway_watchdog import CPU_LIMIT_S, GatewayWatchdog
from emulator.runtime.kernels import (
    PUBLIC_SOCKET,
    SECURE_SOCKET,
    SERVICES_SOCKET,
    KernelSettings,
    SecureListener,
    gateway_config,
)
from emulator.runtime.process import Launcher, WorkerdFailed
from emulator.runtime.routes import FoundRoute, RouteTable
from host.model.time import ClockMode, ControlledClock, RealTime, timestamp
from host.ports import BackendUnavailable

_LOG = logging.getLogger(__name__)
PUBLISH_TIMEOUT_S = 20.0
RETIRE_TIMEOUT_S = 1.0
LOOK_UP_TIMEOUT_S = 5.0
_DRAIN_POLL_S = 0.05
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 2.0


class Gateway:
    """Serves `listener`, `secure` over TLS, and `services` for the calls of execution contexts; all stay the caller's
    to close.

    Use on one event loop, in the main thread.
    """

    def __init__(
        self,
        launcher: Launcher,
        settings: KernelSettings,
        listener: socket.socket,
        calls: BindingCalls,
        clock: ControlledClock,
        real_time: RealTime,
        cpu_limit_s: float = CPU_LIMIT_S,
        services: socket.socket | None = None,
        secure: SecureListener | None = None,
    ) -> None:
        self._launcher = launcher
        self._config = gateway_config(settings, None if secure is None else secure.key_pair)
        self._sockets = {PUBLIC_SOCKET: listener}
        if secure is not None:
            self._sockets[SECURE_SOCKET] = secure.listener
        if services is not None:
            self._sockets[SERVICES_SOCKET] = services
        self._calls = calls
        self._clock = clock
        self._real_time = real_time
        self._watchdog = GatewayWatchdog(real_time, cpu_limit_s)
        self._tags = settings.tags
        self._table = RouteTable().to_json(self._tags)
        self._versions: set[str] = set()
        self._coming: Awaitable[RouteTable] | None = None
        self._process: GatewayProcess | None = None
        self._changed = asyncio.Condition()
        self._run: asyncio.Task[None] | None = None
        self._is_draining = False

    async def open(self, table: RouteTable) -> None:
        """Start the first process with its table. Raises `WorkerdFailed`."""
        self._take(table)
        await self._open()

    async def open_ahead(self, table: Awaitable[RouteTable]) -> None:
        """The same for a table that is made while the process starts."""
        self._coming = table
        await self._open()

    async def _open(self) -> None:
        process = await self._spawn()
        await self._become(process)
        self._run = asyncio.create_task(self._supervise(process))

    async def drain(self) -> None:
        """Take no more connections and calls and return once no handler runs. The caller sets a limit."""
        self._is_draining = True
        if self._run is not None:
            self._run.cancel()
            await asyncio.wait((self._run,))
        if self._process is None:
            return
        await self._refuse_connections(self._process)
        for version_uid in tuple(self._versions):
            while await self.is_executing(version_uid):
                await self._real_time.sleep_s(_DRAIN_POLL_S)

    async def _refuse_connections(self, process: GatewayProcess) -> None:
        """workerd stops to accept at SIGTERM but keeps its sockets open; only then they may be shut for all of us."""
        process.refuse_connections()
        before = process.pongs
        while process.pongs == before and not process.exited.done():
            process.ping()
            await self._real_time.sleep_s(_DRAIN_POLL_S)
        for name in {PUBLIC_SOCKET, SECURE_SOCKET} & self._sockets.keys():
            with contextlib.suppress(OSError):  # not everywhere: there they wait, and are cut at the end
                self._sockets[name].shutdown(socket.SHUT_RDWR)

    async def close(self) -> None:
        """End the process; what it still served is cut."""
        if self._run is not None:
            self._run.cancel()
            await asyncio.wait((self._run,))
        if self._process is not None:
            await self._process.end()

    @property
    def pid(self) -> int | None:
        """The process that serves now."""
        return None if self._process is None else self._process.workerd.child.pid

    async def publish(self, table: RouteTable) -> None:
        """Put a table in force: every request accepted after the return goes by it, also in a successor (WD-04).

        Raises `BackendUnavailable` when no process took it in time; a later one still will.
        """
        self._take(table)
        try:
            async with asyncio.timeout(PUBLISH_TIMEOUT_S):
                process = await self._serving()
                while not await self._sent_table(process):
                    process = await self._serving(after=process)
        except TimeoutError as error:
            raise BackendUnavailable("the gateway did not take its routing table in time") from error

    async def follow_clock(self) -> None:
        """Once this returned no handler sees an earlier state of the clock than the present one.

        A process that does not follow in time is ended: its successor goes by the clock from its start.
        """
        try:
            async with asyncio.timeout(PUBLISH_TIMEOUT_S):
                process = await self._serving()
                await process.set_clock(clock_text(self._clock))
        except GatewayEnded:
            return
        except TimeoutError:
            if self._process is not None:
                await self._process.end()

    async def retire(self, version_uid: str) -> StopEvidence:
        """Stop whatever still runs for a Version that left the table, with evidence (WD-07).

        Raises `BackendUnavailable` while no process answers.
        """
        try:
            process = await asyncio.wait_for(self._serving(), PUBLISH_TIMEOUT_S)
        except TimeoutError as error:
            raise BackendUnavailable("the gateway is not running") from error
        try:
            async with asyncio.timeout(RETIRE_TIMEOUT_S):
                await process.retire(version_uid)
        except (TimeoutError, GatewayEnded):
            return self._evidence(process, "exit", await process.end())
        finally:
            self._versions.discard(version_uid)
        return self._evidence(process, "ack", None)

    async def call_handler(self, call: HandlerCall, on_picked: Callable[[str], None]) -> HandlerEnd:
        """Run a `scheduled` or `queue` handler in a Version that the weights in force pick (WD-03, MW-17).

        Raises `NotStarted`, and `BackendUnavailable` while no process takes calls; then no code ran.
        """
        if self._is_draining:
            raise BackendUnavailable("the host is about to end")
        try:
            process = await asyncio.wait_for(self._serving(), PUBLISH_TIMEOUT_S)
        except TimeoutError as error:
            raise BackendUnavailable("the gateway is not running") from error
        return await handler_calls.call_handler(process, call, on_picked)

    async def is_executing(self, version_uid: str) -> bool:
        """Whether a request of the Version still runs or its body streams (WV-09); a body with a content coding is not
        seen once its handler has settled."""
        if self._process is None:
            return False
        try:
            async with asyncio.timeout(RETIRE_TIMEOUT_S):
                return await self._process.is_executing(version_uid)
        except GatewayEnded:
            return False
        except TimeoutError:
            return True

    async def look_up(self, hostname: str) -> FoundRoute | None:
        """Where the serving process leads a name, none when it is nobody's. Raises `BackendUnavailable`."""
        if self._process is None:
            raise BackendUnavailable("the gateway is not running")
        try:
            async with asyncio.timeout(LOOK_UP_TIMEOUT_S):
                return await self._process.look_up(hostname)
        except (TimeoutError, GatewayEnded) as error:
            raise BackendUnavailable("the gateway does not answer") from error

    def _take(self, table: RouteTable) -> None:
        """The table of this and every later process; a Version that left it may still run until it is retired."""
        self._table = table.to_json(self._tags)
        self._versions.update(routed.version.version_uid for route in table.routes for routed in route.versions)

    def _evidence(self, process: GatewayProcess, kind: Literal["ack", "exit"], status: int | None) -> StopEvidence:
        child = process.workerd.child
        return StopEvidence(child.pid, child.started, kind, status, timestamp(self._clock.now_ms()))

    async def _sent_table(self, process: GatewayProcess) -> bool:
        try:
            await process.set_table(self._table)
        except GatewayEnded:
            return False
        return True

    async def _serving(self, after: GatewayProcess | None = None) -> GatewayProcess:
        """The process that serves, once there is one other than `after`."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._process is not None and self._process is not after)
            assert self._process is not None
            return self._process

    async def _supervise(self, process: GatewayProcess) -> None:
        while True:
            status = await self._watchdog.watch(process)
            await self._become(None)
            _LOG.warning("the gateway ended with status %d; starting its successor", status)
            process = await self._successor()
            await self._become(process)

    async def _become(self, process: GatewayProcess | None) -> None:
        async with self._changed:
            self._process = process
            self._changed.notify_all()

    async def _successor(self) -> GatewayProcess:
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                return await self._spawn()
            except WorkerdFailed as error:
                _LOG.error("the gateway does not start: %s", error)
            await self._real_time.sleep_s(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _spawn(self) -> GatewayProcess:
        process = await GatewayProcess.spawn(self._launcher, self._config, self._sockets, self._calls)
        try:
            if self._coming is not None:
                self._take(await self._coming)
                self._coming = None
            await process.set_clock(clock_text(self._clock))
            await process.set_table(self._table)
        except GatewayEnded as error:
            raise WorkerdFailed("the gateway ended before it took its table") from error
        except BaseException:
            await process.end()
            raise
        return process


def clock_text(clock: ControlledClock) -> str:
    """The clock as the kernel is told of it: `system`, `frozen/<instant>` or `ahead/<of the system clock>`, in ms."""
    match clock.state.mode:
        case ClockMode.SYSTEM:
            return "system"
        case ClockMode.FROZEN:
            return f"frozen/{clock.now_ms()}"
        case ClockMode.ADVANCED:
            return f"ahead/{clock.state.value_ms}"
        case other:
            assert_never(other)
