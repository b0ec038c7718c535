"""Forgets what nobody has a claim to any more: expired values, Operations past their retention, old markers.

Works in small batches, on contract time (HA-54, HA-64).
"""

import asyncio
import logging
from collections.abc import Callable

from host.engine.limits import Limits
from host.model.time import Clock
from host.sqlite import Database, DatabaseError, DatabaseFull, Transaction
from host.store.private import drop_expired_values
from host.store.retention import forget_markers, forget_operations

_BATCH = 200
_PAUSE_MS = 60_000
_log = logging.getLogger(__name__)


class Keeping:
    """Sweeps once a minute of contract time."""

    def __init__(self, database: Database, clock: Clock, limits: Limits) -> None:
        self._database = database
        self._clock = clock
        self._limits = limits
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._sweep_for_ever(), name="retention")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def sweep(self) -> None:
        """Forget everything that is due now."""
        now = self._clock.now_ms()
        await self._database.write(lambda tx: drop_expired_values(tx, now))
        await self._in_batches(lambda tx: forget_operations(tx, now, _BATCH))
        oldest = now - self._limits.replay_window_s * 1000
        await self._in_batches(lambda tx: forget_markers(tx, oldest, _BATCH))

    async def _in_batches(self, forget: Callable[[Transaction], int]) -> None:
        while await self._database.write(forget) == _BATCH:
            pass

    async def _sweep_for_ever(self) -> None:
        while True:
            try:
                await self.sweep()
            except DatabaseFull as error:
                _log.warning("retention is put off: %s", error)
            except DatabaseError:
                _log.exception("retention is put off")
            await self._clock.sleep_until(self._clock.now_ms() + _PAUSE_MS)
