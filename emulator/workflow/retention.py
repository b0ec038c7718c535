"""Purges instances that ended longer ago than they must be kept (DW-40). Knows neither contexts nor the scheduler.

The rows beside a run go first, in batches that no writer has to wait long for; the run row, and with it the id, last.
"""

import asyncio

from emulator.d1 import Statement, named
from emulator.runstore.schema import STATUS, UPDATED_MS
from emulator.runstore.snapshot import TERMINAL
from emulator.workflow.guards import listed
from emulator.workflow.surroundings import RETIRED, Surroundings
from host.model.faults import InjectedFault
from host.model.time import timestamp
from host.sqlite import DatabaseError, Value

RETENTION_MS = 2_592_000_000
KEPT_MS = RETENTION_MS + 60_000
"""A little longer than promised: a status is seen some moments after the instant that it is dated with."""

_MOST_INSTANCES = 16
_MOST_ROWS = 256
_MOST_BYTES = 8 * 1024 * 1024
_BESIDE = ("workflow_events", "workflow_attempts", "workflow_contexts", "workflow_steps")

_HAS_ENDED = f"{STATUS} IN {listed(TERMINAL)}"
_OUTDATED = f"{_HAS_ENDED} AND updated_at <= :before ORDER BY updated_at LIMIT {_MOST_INSTANCES}"
_EMPTY = " AND ".join(
    f"NOT EXISTS (SELECT 1 FROM {table} c WHERE c.workflow_id = runs.workflow_id AND c.run_id = runs.run_id)"
    for table in _BESIDE
)


def _purge_beside(table: str, text: str = "NULL") -> str:
    """Rows of outdated instances, up to a number and, by the column `text`, a size; one row at least."""
    return f"""
        DELETE FROM {table} WHERE rowid IN (
            SELECT id FROM (
                SELECT c.rowid AS id, SUM(COALESCE(octet_length({text}), 0)) OVER (ORDER BY c.rowid) AS bytes,
                    ROW_NUMBER() OVER (ORDER BY c.rowid) AS place
                FROM (SELECT workflow_id, run_id FROM runs WHERE {_OUTDATED}) r JOIN {table} c
                    USING (workflow_id, run_id))
            WHERE place = 1 OR (place <= {_MOST_ROWS} AND bytes <= {_MOST_BYTES}))
    """


_PURGE = (
    _purge_beside("workflow_events", "payload"),
    _purge_beside("workflow_attempts"),
    _purge_beside("workflow_contexts"),
    _purge_beside("workflow_steps", "result"),
    f"DELETE FROM runs WHERE rowid IN (SELECT rowid FROM runs WHERE {_OUTDATED}) AND {_EMPTY}",
)
_OLDEST = f"SELECT {UPDATED_MS} FROM runs WHERE {_HAS_ENDED} ORDER BY updated_at LIMIT 1"


class Retention:
    """Sleeps on the clock until the oldest ended instance may go."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._around = surroundings
        self._loop: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._loop is None:
            self._loop = asyncio.create_task(self._run(), name="workflow retention")

    async def stop(self) -> None:
        """Purge nothing any more; a batch that is queued is committed."""
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.wait([self._loop])
            self._loop = None

    async def has_due(self) -> bool:
        """Whether an instance may go at this instant."""
        return await self._next_ms() <= self._around.clock.now_ms()

    async def _next_ms(self) -> int:
        """When the oldest instance may go; without any, when the first to end from now on may."""
        [found] = await self._around.database.query([Statement(_OLDEST)])
        ended_ms = found.rows[0][0] if found.rows else self._around.clock.now_ms()
        assert isinstance(ended_ms, int)
        return ended_ms + KEPT_MS

    async def _run(self) -> None:
        while True:
            try:
                while await self.has_due():
                    await self._purge_batch()
                    self._around.activity.ring()
                await self._around.clock.sleep_until(await self._next_ms())
            except (DatabaseError, InjectedFault) as error:
                await self._around.pause_after(error, "outdated instances are purged later")
                self._around.activity.ring()  # the purge may have been committed before it failed

    async def _purge_batch(self) -> None:
        values: dict[str, Value] = {"before": timestamp(self._around.clock.now_ms() - KEPT_MS)}
        await self._around.database.batch([named(sql, values) for sql in _PURGE])
        self._around.faults.reach(RETIRED)
