"""Marks what has fallen due: sleeping and waiting instances whose instant has come are queued, in due order.

Starts nothing and knows no history: one transaction over the due index and the run rows, however many instances sleep.
What it means for a step (an event in time, a timeout) is decided at the claim, by the recorded instants alone.
"""

from emulator.d1 import Statement, named
from emulator.workflow import due, transitions
from emulator.workflow.surroundings import MARKED, Surroundings
from emulator.workflow.ticker import Ticker

MOST_MARKED = 128
"""Instances in one transaction: enough for thousands a second, few enough that no other writer waits long for it."""


class Marker:
    """Queues instances at their instants, whatever starts or executes meanwhile."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._around = surroundings
        self.ticker = Ticker("the marker of due instances", surroundings, self._mark)

    async def _mark(self, now_ms: int) -> int | None:
        [found] = await self._around.database.query([due.select_unmarked()])
        [(earliest_ms,)] = found.rows
        assert earliest_ms is None or isinstance(earliest_ms, int)
        if earliest_ms is None or earliest_ms > now_ms:
            return earliest_ms
        *_, marked = await self._around.commit(mark(now_ms, MOST_MARKED))
        self._around.faults.reach(MARKED)
        return now_ms if marked.is_applied else None


def mark(now_ms: int, most: int) -> list[Statement]:
    """Queue the instances that are due longest, at most so many: status and mark stand in one transaction."""
    return [
        transitions.queue_due(due.UNMARKED, now_ms, most),
        named(due.MARK, {"now": now_ms, "most": most}),
    ]
