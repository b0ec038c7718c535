"""One place where requests are answered: its listening sockets, the process on them, and whoever stands in for it.

Knows no table and no Version: whoever owns the post prepares each process and is told how it ended.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
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
TIRED_BYTES = 768 << 20
"""With so much memory a process is replaced: what requests leave in workerd is not always collected in time."""

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


@dataclass(frozen=True, slots=True)
class Signals:
    """Of a post that others stand beside: `dismiss` ends a process once nothing runs in it, `on_change` is called when
    another one is to be spoken to or none, `on_load` with the share of a processor that is burnt, twice a second."""

    dismiss: Dismiss
    on_change: Callable[[], None]
    on_load: Callable[[float], None]


@dataclass(slots=True, eq=False)
class _Member:
    process: GatewayProcess
    is_doubted: bool = False
    is_tired: bool = False
    is_leaving: bool = False


class GatewayPost:
    """Keeps a process on `sockets`; `report` is told of each end.

    With `signals` one whose event loop does not turn gets an understudy on the same sockets: new connections are
    answered at once, whatever becomes of it. One with much memory is replaced once its successor answers.
    """

    def __init__(
        self,
        supply: Supply,
        config: Config,
        sockets: Mapping[str, socket],
        report: Report,
        signals: Signals | None = None,
    ) -> None:
        self._supply = supply
        self._config = config
        self._sockets = sockets
        self._report = report
        self._signals = signals
        self._wanted = 1
        self._live: set[GatewayProcess] = set()
        self._crew: list[_Member] = []
        self._starting: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_resting = False
        self._changed = asyncio.Condition()

    @property
    def process(self) -> GatewayProcess | None:
        """The one to speak to: the eldest that turns; none while a successor starts."""
        return next((member.process for member in (*self._able, *self._crew)), None)

    @property
    def is_able(self) -> bool:
        """Whether there is a process whose event loop turns, as far as is known."""
        return bool(self._able)

    @property
    def live(self) -> frozenset[GatewayProcess]:
        """Every process that may answer requests, however short its time."""
        return frozenset(process for process in self._live if not process.exited.done())

    async def open(self) -> None:
        """Start the first process. Raises `WorkerdFailed`."""
        await self._join(await self._spawn())

    def open_soon(self) -> None:
        """The same without waiting, as often as it takes."""
        self._tend()

    async def rest(self) -> None:
        """Start and dismiss no more processes; those there are go on, unwatched."""
        self._is_resting = True
        await self._cancel([*self._tasks, *([] if self._starting is None else [self._starting])])

    async def leave(self) -> None:
        """Return once every process has ended what it has taken, and then itself."""
        self._wanted = 0
        if self._starting is not None:
            await self._cancel([self._starting])
        self._tend()
        await asyncio.gather(*self._tasks)

    async def _cancel(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def close(self) -> None:
        """End every process; what they still served is cut."""
        await self.rest()
        await asyncio.gather(*(process.end() for process in self.live))

    async def serving(self, after: GatewayProcess | None = None) -> GatewayProcess:
        """The process to speak to, once there is one other than `after`."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.process not in (None, after))
            assert self.process is not None
            return self.process

    @property
    def _able(self) -> list[_Member]:
        """Who answers, eldest first. Where nobody may join, one in doubt is waited for all the same."""
        return [member for member in self._crew if not member.is_leaving and not self._is_out(member)]

    def _is_out(self, member: _Member) -> bool:
        return (member.is_doubted or member.is_tired) and self._signals is not None

    def _tend(self) -> None:
        """Start whoever is missing, one at a time, and dismiss the youngest while there are too many, and whoever is
        replaced."""
        if self._is_resting:
            return
        able = self._able
        if len(able) < self._wanted and self._starting is None:
            self._starting = asyncio.create_task(self._start())
        tired = [member for member in self._crew if member.is_tired and not member.is_leaving]
        for member in (*able[self._wanted :], *(tired if able or self._wanted == 0 else ())):
            self._send_off(member)

    async def _start(self) -> None:
        process = await self._successor()
        self._starting = None
        await self._join(process)

    async def _join(self, process: GatewayProcess) -> None:
        member = _Member(process)
        self._run(self._watch(member))
        await self._change(lambda: self._crew.append(member))
        self._tend()

    async def _watch(self, member: _Member) -> None:
        ending = await self._supply.watchdog.watch(
            member.process, partial(self._doubt, member), partial(self._tell_load, member)
        )
        await self._change(lambda: self._crew.remove(member))
        if ending.is_offence or not member.is_leaving:
            self._report(member.process, ending)
        self._tend()

    async def _change(self, change: Callable[[], None]) -> None:
        async with self._changed:
            change()
            self._changed.notify_all()
        self._tell_change()

    def _tell_change(self) -> None:
        if self._signals is not None:
            self._signals.on_change()

    def _doubt(self, member: _Member, is_doubted: bool) -> None:
        """The event loop of the process does not turn, or does again."""
        member.is_doubted = is_doubted
        self._tell_change()
        self._tend()

    def _tell_load(self, member: _Member, share: float, rss_bytes: int) -> None:
        if self._signals is None or member.is_leaving:
            return
        if rss_bytes >= TIRED_BYTES and not member.is_tired:
            _LOG.info("a process of the gateway has %d MiB of memory: it is replaced", rss_bytes >> 20)
            member.is_tired = True
            self._tend()
        self._signals.on_load(share)

    def _send_off(self, member: _Member) -> None:
        if self._signals is not None:
            member.is_leaving = True
            self._run(self._signals.dismiss(member.process))

    def _run(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

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
