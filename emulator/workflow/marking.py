"""Marks what has fallen due: sleeping and waiting instances whose instant has come are queued, in due order.

Starts nothing and knows no history: one transaction over the due index and the run rows, however many instances sleep.
What it means for a step (an event in time, a timeout) is decided at the claim, by the recorded instants alone.
"""

import asyncio

from emulator.d1 import Result, Statement, named
from emulator.workflow import due, transitions
from emulator.workflow.surroundings import MARKED, Surroundings
from emulator.workflow.ticker import Ticker

PAUSE_MS = 10
"""On the system clock so long between marks: what falls due meanwhile is marked together, well within 50 ms."""
MOST_MARKED = 128
"""Instances in one transaction: enough for thousands a second, few enough that no other writer waits long for it."""


class Marker:
    """Queues instances at their instants, whatever starts or executes meanwhile."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._around = surroundings
        self._earliest_ms: int | None = None
        self._paused_until_ms = 0
        self.ticker = Ticker("the marker of due instances", surroundings, surroundings.timer_bell, self.mark)

    async def mark(self, now_ms: int) -> int | None:
        """Mark once, and give the next instant to do so. Woken by a bell it first looks whether that came nearer."""
        if now_ms < self._paused_until_ms:
            return self._paused_until_ms
        if self._earliest_ms is None or self._earliest_ms > now_ms:
            [found] = await self._around.database.query([due.select_unmarked()])
            self._earliest_ms = due.instant_of(found)
            if self._earliest_ms is None or self._earliest_ms > now_ms:
                return self._earliest_ms
        *_, marked, next_one = await self._commit([*marks(now_ms, MOST_MARKED), due.select_unmarked()])
        self._around.faults.reach(MARKED)
        if marked.changes < MOST_MARKED and not self._around.clock.is_controlled:
            self._paused_until_ms = now_ms + PAUSE_MS
        self._earliest_ms = due.instant_of(next_one)
        is_stuck = not marked.is_applied and self._earliest_ms is not None and self._earliest_ms <= now_ms
        return None if is_stuck else self._earliest_ms

    async def _commit(self, statements: list[Statement]) -> list[Result]:
        """Before all batches that wait: none of them is about what is marked here."""
        batch = self._around.database.submit(statements, is_urgent=True)
        batch.add_done_callback(lambda _: self._around.due_bell.ring())
        return await asyncio.shield(batch)


def marks(now_ms: int, most: int) -> list[Statement]:
    """Queue the instances that are due longest, at most so many: status and mark stand in one transaction."""
    return [
        transitions.queue_due(due.UNMARKED, now_ms, most),
        named(due.MARK, {"now": now_ms, "most": most}),
    ]
