"""Ends instances past their lifetime, whatever they are doing (DW-33). Knows neither contexts nor histories."""

import asyncio

from emulator.runstore.snapshot import RunStatus
from emulator.workflow import due, event_rows, notices, transitions
from emulator.workflow.due import DueInstance
from emulator.workflow.executions import Executions
from emulator.workflow.surroundings import Surroundings
from emulator.workflow.ticker import Ticker

_MOST_AT_ONCE = 16


class Lifetimes:
    """Looks at the expiry index; the ends of what executes go on by themselves."""

    def __init__(self, surroundings: Surroundings, executions: Executions) -> None:
        self._around = surroundings
        self._executions = executions
        self._endings: set[asyncio.Task[None]] = set()
        self.ticker = Ticker("the end of lifetimes", surroundings, surroundings.timer_bell, self._act)

    async def _act(self, now_ms: int) -> int | None:
        expired, later = await self._around.database.query(
            [due.select_expired(now_ms, _MOST_AT_ONCE), due.select_next_expiry(now_ms)]
        )
        acted = await asyncio.gather(*(self._expire(due.due_instance(row)) for row in expired.rows))
        if any(acted):
            return now_ms
        return due.instant_of(later)

    async def _expire(self, found: DueInstance) -> bool:
        address, execution = found.address, self._executions.of(found.address)
        now_ms, ids = self._around.clock.now_ms(), self._around.ids
        failure = transitions.LIFETIME_EXCEEDED
        parked, running, *_ = await self._around.database.batch(
            [
                transitions.end_parked(address, ids(), RunStatus.ERRORED, now_ms, failure),
                transitions.end_running(address, ids(), RunStatus.ERRORED, now_ms, failure),
                event_rows.drop_unmatched(address),
                *due.refresh(address),
            ]
        )
        is_ended = parked.is_applied or running.is_applied
        if is_ended:
            self._around.tell(notices.expired(found, execution if running.is_applied else None))
        if running.is_applied:
            ending = asyncio.create_task(self._executions.end(address, "lifetime_exceeded"))
            self._around.spawn(self._endings, ending)
        return is_ended
