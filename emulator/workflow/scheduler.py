"""Turns due rows into contexts: a marker queues what falls due, a starter starts what is queued, lifetimes end.

Three tasks, so that no instant is missed while contexts start. Knows no frame and no history.
"""

import asyncio
from collections.abc import Sequence

from emulator.workflow import due
from emulator.workflow.due import DueInstance, due_instance
from emulator.workflow.executions import Executions
from emulator.workflow.lifetimes import Lifetimes
from emulator.workflow.marking import Marker
from emulator.workflow.sessions import Session
from emulator.workflow.surroundings import Surroundings, logger
from emulator.workflow.ticker import Ticker

_PATIENCE_S = 0.2
_LARGEST_PASS = 16
"""Claims at a time: more would hold the event loop, and with it the marker, for longer than a mark may be late."""


class Scheduler:
    """What is due, as a whole."""

    def __init__(self, surroundings: Surroundings, executions: Executions, max_contexts: int) -> None:
        self._around = surroundings
        self.marker = Marker(surroundings).ticker
        self.starter = Starter(surroundings, executions, max_contexts).ticker
        self._parts = (self.marker, Lifetimes(surroundings, executions).ticker, self.starter)

    def start(self) -> None:
        for part in self._parts:
            part.start()

    async def stop(self) -> None:
        """Start, queue and end nothing any more."""
        for part in self._parts:
            await part.stop()

    async def has_due(self) -> bool:
        """Whether something is to be queued, can start or expires at this instant."""
        now_ms = self._around.clock.now_ms()
        unmarked, *others = await self._around.database.query(
            [due.select_unmarked(), due.select_startable(now_ms, 1), due.select_expired(now_ms, 1)]
        )
        earliest_ms = due.instant_of(unmarked)
        return (earliest_ms is not None and earliest_ms <= now_ms) or any(result.rows for result in others)

    async def next_ms(self) -> int | None:
        """The earliest instant at which something falls due or expires; none for never."""
        found = await self._around.database.query([due.select_unmarked(), due.select_next_expiry(-1)])
        instants = map(due.instant_of, found)
        return min((at_ms for at_ms in instants if at_ms is not None), default=None)


class Starter:
    """Starts a context for each queued instance, the longest due first, at most `max_contexts` at a time."""

    def __init__(self, surroundings: Surroundings, executions: Executions, max_contexts: int) -> None:
        self._around = surroundings
        self._executions = executions
        self._max_contexts = max_contexts
        self._is_full = False
        self.ticker = Ticker("the starter of contexts", surroundings, surroundings.due_bell, self._act)

    async def _act(self, now_ms: int) -> int | None:
        await self._around.shortage.rest()
        free = self._max_contexts - len(self._executions)
        self._tell_if_full(free)
        if free <= 0:
            return None
        [found] = await self._around.database.query([due.select_startable(now_ms, min(free, _LARGEST_PASS))])
        return now_ms if await self._start([due_instance(row) for row in found.rows]) else None

    async def _start(self, found: Sequence[DueInstance]) -> bool:
        sessions = []
        for instance in found:
            if instance.address not in self._executions:
                session = Session(self._around, instance)
                self._executions.add(session)
                sessions.append(session)
        if not sessions:
            return False
        claimed = await asyncio.gather(*(session.claimed for session in sessions))
        if not any(claimed):
            await self._around.real_time.sleep_s(_PATIENCE_S)
        return True

    def _tell_if_full(self, free: int) -> None:
        if free <= 0 and not self._is_full:
            logger.warning("%d contexts execute: further instances wait in due order", self._max_contexts)
        self._is_full = free <= 0
