"""One place where requests are answered: its listening sockets, the process on them, and whoever stands in for it.

Knows no table and no Version: whoever owns the post prepares each process and is told how it ended.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from socket import socket

from emulator.contexts import BindingCalls
from emulator.runtime.config import Config
from emulator.runtime.gateway_process import GatewayEnded, GatewayProcess
from emulator.runtime.gateway_watchdog import Ending, GatewayWatchdog
from emulator.runtime.process import Launcher, WorkerdFailed
from host.model.time import RealTime

_LOG = logging.getLogger(__name__)
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 2.0

Prepare = Callable[[GatewayProcess], Awaitable[None]]
Report = Callable[[GatewayProcess, Ending], None]
Dismiss = Callable[[GatewayProcess], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Supply:
    """What every post of a gateway is run with. `prepare` makes a new process ready to answer, and raises
    `GatewayEnded` when it ends."""

    launcher: Launcher
    calls: BindingCalls
    real_time: RealTime
    watchdog: GatewayWatchdog
    prepare: Prepare


class GatewayPost:
    """Keeps a process on `sockets`; `report` is told of each end.

    With `dismiss`, which ends a process once nothing runs in it, a process whose event loop does not turn gets an
    understudy on the same sockets: new connections are answered at once, whatever becomes of it.
    """

    def __init__(
        self,
        supply: Supply,
        config: Config,
        sockets: Mapping[str, socket],
        report: Report,
        dismiss: Dismiss | None = None,
    ) -> None:
        self._supply = supply
        self._config = config
        self._sockets = sockets
        self._report = report
        self._dismiss = dismiss
        self._live: set[GatewayProcess] = set()
        self._process: GatewayProcess | None = None
        self._understudy: asyncio.Task[GatewayProcess] | None = None
        self._leaving: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Condition()
        self._run: asyncio.Task[None] | None = None

    @property
    def process(self) -> GatewayProcess | None:
        """The one that serves now, none while its successor starts."""
        return self._process

    @property
    def live(self) -> frozenset[GatewayProcess]:
        """Every process that may answer requests, however short its time."""
        return frozenset(process for process in self._live if not process.exited.done())

    async def open(self) -> None:
        """Start the first process. Raises `WorkerdFailed`."""
        process = await self._spawn()
        await self._become(process)
        self._run = asyncio.create_task(self._supervise(process))

    def open_soon(self) -> None:
        """The same without waiting, as often as it takes."""
        self._run = asyncio.create_task(self._open_and_supervise())

    async def rest(self) -> None:
        """Start no more processes; those there are go on."""
        tasks = [task for task in (self._run, self._understudy, *self._leaving) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def close(self) -> None:
        """End every process; what they still served is cut."""
        await self.rest()
        await asyncio.gather(*(process.end() for process in self.live))

    async def serving(self, after: GatewayProcess | None = None) -> GatewayProcess:
        """The process that serves, once there is one other than `after`."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._process is not None and self._process is not after)
            assert self._process is not None
            return self._process

    async def _open_and_supervise(self) -> None:
        process = await self._successor()
        await self._become(process)
        await self._supervise(process)

    async def _supervise(self, process: GatewayProcess) -> None:
        while True:
            ending = await self._supply.watchdog.watch(process, self._doubt)
            await self._become(None)
            self._report(process, ending)
            process = await self._stand_in()
            await self._become(process)

    async def _become(self, process: GatewayProcess | None) -> None:
        async with self._changed:
            self._process = process
            self._changed.notify_all()

    def _doubt(self, is_doubted: bool) -> None:
        """The event loop of the process does not turn, or does again."""
        if self._dismiss is None:
            return
        if is_doubted and self._understudy is None:
            self._understudy = asyncio.create_task(self._spawn())
        elif not is_doubted and self._understudy is not None:
            understudy, self._understudy = self._understudy, None
            task = asyncio.create_task(self._send_off(understudy, self._dismiss))
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)

    async def _send_off(self, understudy: asyncio.Task[GatewayProcess], dismiss: Dismiss) -> None:
        try:
            await dismiss(await understudy)
        except WorkerdFailed:
            return

    async def _stand_in(self) -> GatewayProcess:
        understudy, self._understudy = self._understudy, None
        if understudy is not None:
            try:
                return await understudy
            except WorkerdFailed as error:
                _LOG.error("an understudy of the gateway does not start: %s", error)
        return await self._successor()

    async def _successor(self) -> GatewayProcess:
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                return await self._spawn()
            except WorkerdFailed as error:
                _LOG.error("the gateway does not start: %s", error)
            await self._supply.real_time.sleep_s(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _spawn(self) -> GatewayProcess:
        process = await GatewayProcess.spawn(self._supply.launcher, self._config, self._sockets, self._supply.calls)
        self._live.add(process)
        process.exited.add_done_callback(lambda _: self._live.discard(process))
        try:
            await self._supply.prepare(process)
        except GatewayEnded as error:
            raise WorkerdFailed("the gateway ended before it took its table") from error
        except BaseException:
            await process.end()
            raise
        return process
