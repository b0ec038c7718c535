"""Turns due rows into contexts and ends instances past their lifetime.

Sleeps on the clock and on a bell, never polls. Knows no frame and no history.
"""

import asyncio
from collections.abc import Sequence

from emulator.runstore.snapshot import RunStatus
from emulator.workflow import due, event_rows, transitions
from emulator.workflow.due import DueInstance, due_instance
from emulator.workflow.executions import Executions
from emulator.workflow.sessions import Session
from emulator.workflow.surroundings import Surroundings, logger
from host.sqlite import DatabaseError

_PATIENCE_S = 0.2
_LARGEST_PASS = 256


class Scheduler:
    """At most `max_contexts` at a time; who is due longer starts first."""

    def __init__(self, surroundings: Surroundings, executions: Executions, max_contexts: int) -> None:
        self._around = surroundings
        self._executions = executions
        self._max_contexts = max_contexts
        self._is_full = False
        self._loop: asyncio.Task[None] | None = None
        self._endings: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        self._loop = asyncio.create_task(self._run(), name="workflow scheduler")

    async def stop(self) -> None:
        """Start nothing any more."""
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.wait([self._loop])
            self._loop = None

    async def has_due(self) -> bool:
        """Whether something can start or expires at this instant."""
        now_ms = self._around.clock.now_ms()
        found = await self._around.database.query([due.select_startable(now_ms, 1), due.select_expired(now_ms, 1)])
        return any(result.rows for result in found)

    async def next_ms(self, after_ms: int = -1) -> int | None:
        """The earliest instant after `after_ms` at which something can start or expires; none for never."""
        [found] = await self._around.database.query([due.select_next(after_ms)])
        [(at_ms,)] = found.rows
        assert at_ms is None or isinstance(at_ms, int)
        return at_ms

    async def _run(self) -> None:
        while True:
            heard = self._around.due_bell.count
            now_ms = self._around.clock.now_ms()
            try:
                has_acted = await self._pass(now_ms)
                next_ms = None if has_acted else await self.next_ms(now_ms)
            except DatabaseError as error:
                logger.warning("the scheduler tries again: %s", error)
                await self._around.real_time.sleep_s(_PATIENCE_S)
                continue
            self._around.activity.ring()
            if not has_acted:
                await self._wait(heard, next_ms)

    async def _wait(self, heard: int, next_ms: int | None) -> None:
        """Until the bell rings or the clock reaches what is next. What is due and was not started waits for a ring."""
        bell = asyncio.create_task(self._around.due_bell.after(heard))
        waits = {bell}
        if next_ms is not None:
            waits.add(asyncio.create_task(self._around.clock.sleep_until(next_ms)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()
            await asyncio.wait(waits)

    async def _pass(self, now_ms: int) -> bool:
        """Act on what is due; says whether another pass is wanted at once."""
        free = self._max_contexts - len(self._executions)
        self._tell_if_full(free)
        expired, startable = await self._around.database.query(
            [
                due.select_expired(now_ms, _LARGEST_PASS),
                due.select_startable(now_ms, max(0, min(free, _LARGEST_PASS))),
            ]
        )
        has_expired = await self._expire([due_instance(row) for row in expired.rows])
        has_started = await self._start([due_instance(row) for row in startable.rows])
        return has_expired or has_started

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

    async def _expire(self, found: Sequence[DueInstance]) -> bool:
        acted = [await self._expire_one(instance) for instance in found]
        return any(acted)

    async def _expire_one(self, instance: DueInstance) -> bool:
        address, now_ms, ids = instance.address, self._around.clock.now_ms(), self._around.ids
        failure = transitions.LIFETIME_EXCEEDED
        parked, running, *_ = await self._around.database.batch(
            [
                transitions.end_parked(address, ids(), RunStatus.ERRORED, now_ms, failure),
                transitions.end_running(address, ids(), RunStatus.ERRORED, now_ms, failure),
                event_rows.drop_unmatched(address),
                *due.refresh(address),
            ]
        )
        if running.is_applied:
            ending = asyncio.create_task(self._executions.end(address, "lifetime_exceeded"))
            self._around.spawn(self._endings, ending)
        return parked.is_applied or running.is_applied

    def _tell_if_full(self, free: int) -> None:
        if free <= 0 and not self._is_full:
            logger.warning("%d contexts execute: further instances wait in due order", self._max_contexts)
        self._is_full = free <= 0
