"""The HTTP way in to Workers: the public socket, the table of routes, and Versions set apart in processes of their own.

Owns neither weights nor names: whoever does publishes a table. No request passes through here.
"""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Mapping
from functools import partial
from typing import Literal, assert_never

from emulator.contexts import BindingCalls, StopEvidence
from emulator.events import HandlerCall, HandlerEnd, OnPicked
from emulator.runtime import handler_calls
from emulator.runtime.config import Config
from emulator.runtime.gateway_post import GatewayPost, Signals, Supply
from emulator.runtime.gateway_posts import GatewayPosts
from emulator.runtime.gateway_process import GatewayEnded, GatewayProcess
from emulator.runtime.gateway_watchdog import CPU_LIMIT_S, Ending, GatewayWatchdog
from emulator.runtime.kernels import (
    PUBLIC_SOCKET,
    SECURE_SOCKET,
    SERVICES_SOCKET,
    WARD_SOCKET,
    KernelSettings,
    SecureListener,
    gateway_config,
    ward_config,
)
from emulator.runtime.process import Launcher
from emulator.runtime.routes import FoundRoute, RouteTable
from emulator.runtime.wards import Suspect, Wards
from host.model.time import ClockMode, ControlledClock, RealTime, timestamp
from host.ports import BackendUnavailable

PUBLISH_TIMEOUT_S = 20.0
RETIRE_TIMEOUT_S = 1.0
LOOK_UP_TIMEOUT_S = 5.0
WARDS = 8
_DRAIN_POLL_S = 0.05


class Gateway:
    """Serves `listener`, `secure` over TLS, and `services` for the calls of execution contexts; all stay the caller's
    to close. When requests keep a process busy others join it, up to `most`.

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
        most: int = 1,
    ) -> None:
        public = {PUBLIC_SOCKET: listener}
        if secure is not None:
            public[SECURE_SOCKET] = secure.listener
        self._clock = clock
        self._real_time = real_time
        self._tags = settings.tags
        self._table = RouteTable()
        self._versions: dict[str, Suspect] = {}
        self._coming: Awaitable[RouteTable] | None = None
        self._is_draining = False
        others = {} if services is None else {SERVICES_SOCKET: services}
        supply = Supply(launcher, calls, real_time, GatewayWatchdog(real_time, cpu_limit_s), self._prepare)
        doors = [launcher.listen() for _ in range(WARDS)]
        config = gateway_config(settings, None if secure is None else secure.key_pair, [path for _, path in doors])
        make_post = partial(self._make_post, supply, config)
        self._post = GatewayPosts(make_post, public, others, self._dismiss, most, real_time)
        alone = ward_config(settings)
        self._wards = Wards(
            [door for door, _ in doors],
            lambda door, report: GatewayPost(supply, alone, {WARD_SOCKET: door}, report),
            clock,
            real_time,
            launcher.output.tell,
            self._hand_out,
        )

    def _make_post(
        self, supply: Supply, config: Config, sockets: Mapping[str, socket.socket], signals: Signals
    ) -> GatewayPost:
        return GatewayPost(supply, config, sockets, self._report, signals)

    async def open(self, table: RouteTable) -> None:
        """Start the first process with its table. Raises `WorkerdFailed`."""
        self._take(table)
        await self._post.open()

    async def open_ahead(self, table: Awaitable[RouteTable]) -> None:
        """The same for a table that is made while the process starts."""
        self._coming = table
        await self._post.open()

    async def drain(self) -> None:
        """Take no more connections and calls and return once no handler runs and no body streams.

        The caller sets a limit.
        """
        self._is_draining = True
        await self._post.rest()
        await self._wards.rest()
        await asyncio.gather(*(self._refuse_connections(process) for process in self._post.live))
        self._post.shut()
        for version_uid in tuple(self._versions):
            while await self.is_executing(version_uid):
                await self._real_time.sleep_s(_DRAIN_POLL_S)

    async def close(self) -> None:
        """End every process; what they still served is cut."""
        await self._post.close()
        await self._wards.close()

    @property
    def pid(self) -> int | None:
        """The process on the public socket that serves now."""
        return None if self._post.process is None else self._post.process.pid

    @property
    def pids(self) -> tuple[int, ...]:
        """Every process that answers requests."""
        return tuple(sorted(process.pid for process in self._live))

    @property
    def census(self) -> tuple[tuple[int, str | None], ...]:
        """The same, each with the Version that it serves alone; those of all Versions first."""
        wards = {process.pid: uid for process, uid in self._wards.census.items()}
        return (*((pid, None) for pid in self.pids if pid not in wards), *sorted(wards.items()))

    @property
    def apart(self) -> Mapping[str, int]:
        """Versions that are served by a process of their own, by uid, with its number."""
        return self._wards.numbers

    async def publish(self, table: RouteTable) -> None:
        """Put a table in force: every request accepted after the return goes by it, also in a successor (WD-04).

        Raises `BackendUnavailable` when no process took it in time; a later one still will.
        """
        self._take(table)
        try:
            async with asyncio.timeout(PUBLISH_TIMEOUT_S):
                process = await self._post.serving()
                while process not in await self._hand_out():
                    process = await self._post.serving(after=process)
        except TimeoutError as error:
            raise BackendUnavailable("the gateway did not take its routing table in time") from error

    async def follow_clock(self) -> None:
        """Once this returned no handler sees an earlier state of the clock than the present one.

        A process that does not follow in time is ended: its successor goes by the clock from its start.
        """
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._post.serving(), PUBLISH_TIMEOUT_S)
        await asyncio.gather(*map(self._set_clock, self._live))

    async def retire(self, version_uid: str) -> StopEvidence:
        """Stop whatever still runs for a Version that left the table, with evidence (WD-07).

        Raises `BackendUnavailable` while no process answers.
        """
        try:
            await asyncio.wait_for(self._post.serving(), PUBLISH_TIMEOUT_S)
        except TimeoutError as error:
            raise BackendUnavailable("the gateway is not running") from error
        stops = await asyncio.gather(*(self._retire_from(process, version_uid) for process in self._live))
        self._versions.pop(version_uid, None)
        return next((stop for stop in stops if stop.kind == "exit"), stops[0])

    async def is_executing(self, version_uid: str) -> bool:
        """Whether a request of the Version still runs or its body streams (WV-09); a body with a content coding is not
        seen once its handler has settled."""
        return any(await asyncio.gather(*(_is_executing(process, version_uid) for process in self._live)))

    @property
    def _live(self) -> list[GatewayProcess]:
        """Every process, the one that serves first."""
        others = (self._post.live | self._wards.live) - {self._post.process}
        serving = self._post.process
        return [*others] if serving is None else [serving, *others]

    def _take(self, table: RouteTable) -> None:
        """The table of every process from now on; a Version that left it may still run until it is retired. One whose
        Worker was deployed anew is served among the others again."""
        before, self._table = self._table, table
        for route in table.routes:
            for routed in route.versions:
                uid = routed.version.version_uid
                self._versions[uid] = Suspect(uid, route.worker_uid, route.name)
        self._wards.forget(before.redeployed_in(table))

    async def _hand_out(self) -> set[GatewayProcess]:
        """Give every process the present table; those that took it. One that ended needs it no more."""
        text = self._table.to_json(self._tags, self._wards.numbers)

        async def give(process: GatewayProcess) -> GatewayProcess | None:
            try:
                await process.set_table(text)
            except GatewayEnded:
                return None
            return process

        took = await asyncio.gather(*map(give, self._live))
        return {process for process in took if process is not None}

    async def _prepare(self, process: GatewayProcess) -> None:
        if self._coming is not None:
            self._take(await self._coming)
            self._coming = None
        await process.set_clock(clock_text(self._clock))
        await process.set_table(self._table.to_json(self._tags, self._wards.numbers))

    async def _set_clock(self, process: GatewayProcess) -> None:
        try:
            async with asyncio.timeout(PUBLISH_TIMEOUT_S):
                await process.set_clock(clock_text(self._clock))
        except GatewayEnded:
            return
        except TimeoutError:
            await process.end()

    async def _retire_from(self, process: GatewayProcess, version_uid: str) -> StopEvidence:
        try:
            async with asyncio.timeout(RETIRE_TIMEOUT_S):
                await process.retire(version_uid)
        except (TimeoutError, GatewayEnded):
            return self._evidence(process, "exit", await process.end())
        return self._evidence(process, "ack", None)

    async def call_handler(self, call: HandlerCall, on_picked: OnPicked) -> HandlerEnd:
        """Run a `scheduled` or `queue` handler in a Version that the weights in force pick (WD-03, MW-17).

        Raises `NotStarted`, `BackendUnavailable` while no process takes calls, and what `on_picked` raises; then no
        code ran.
        """
        process = await self._for_handlers(self._post)
        end = await handler_calls.call_handler(process, call, on_picked)
        if not isinstance(end, handler_calls.Apart):
            return end
        process = await self._for_handlers(self._wards.post_of(end.version_uid) or self._post)
        await on_picked(end.version_uid)
        return await handler_calls.run_handler(process, call, end.version_uid)

    async def _for_handlers(self, post: GatewayPost | GatewayPosts) -> GatewayProcess:
        """The process of the post that a call may be given to."""
        if self._is_draining:
            raise BackendUnavailable("the host is about to end")
        try:
            return await asyncio.wait_for(post.serving(), PUBLISH_TIMEOUT_S)
        except TimeoutError as error:
            raise BackendUnavailable("the gateway is not running") from error

    async def look_up(self, hostname: str) -> FoundRoute | None:
        """Where the serving process leads a name, none when it is nobody's. Raises `BackendUnavailable`."""
        if self._post.process is None:
            raise BackendUnavailable("the gateway is not running")
        try:
            async with asyncio.timeout(LOOK_UP_TIMEOUT_S):
                return await self._post.process.look_up(hostname)
        except (TimeoutError, GatewayEnded) as error:
            raise BackendUnavailable("the gateway does not answer") from error

    def _evidence(self, process: GatewayProcess, kind: Literal["ack", "exit"], status: int | None) -> StopEvidence:
        child = process.workerd.child
        return StopEvidence(child.pid, child.started, kind, status, timestamp(self._clock.now_ms()))

    def _report(self, process: GatewayProcess, ending: Ending) -> None:
        self._wards.report(ending, [self._versions[uid] for uid in process.suspects if uid in self._versions])

    async def _dismiss(self, process: GatewayProcess) -> None:
        """Nobody needs it any more: it ends what it has taken, then itself."""
        await self._refuse_connections(process)
        while process.active and not process.exited.done():
            process.settle()
            await self._real_time.sleep_s(_DRAIN_POLL_S)
        await process.end()

    async def _refuse_connections(self, process: GatewayProcess) -> None:
        """workerd stops to accept at SIGTERM but keeps its sockets open; only then they may be shut for all of us."""
        process.refuse_connections()
        before = process.pongs
        while process.pongs == before and not process.exited.done():
            process.ping()
            await self._real_time.sleep_s(_DRAIN_POLL_S)


async def _is_executing(process: GatewayProcess, version_uid: str) -> bool:
    try:
        async with asyncio.timeout(RETIRE_TIMEOUT_S):
            return await process.is_executing(version_uid)
    except GatewayEnded:
        return False
    except TimeoutError:
        return True


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
