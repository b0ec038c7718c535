"""Legs that execute are touched; a silent run of `settle` mode is settled, a `replay` run never is (RS-21).

All of it asks "is it still alive" and counts real time; contract time is not known here.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from emulator.runstore.address import RunAddress
from emulator.runstore.capability import GuardsStoredRuns, ReadsRuns, ReplacesSnapshots, TouchesRuns
from emulator.runstore.changes import Liveness
from emulator.runstore.endings import Cause, end_snapshot
from emulator.runstore.errors import RunStoreError
from emulator.runstore.inputs import Replacement
from emulator.runstore.instants import milliseconds
from emulator.runstore.rows import RunRow
from emulator.runstore.rules import is_settled, lifecycle_of, scalar
from emulator.runstore.scopes import StoredRunScope
from emulator.runstore.store import Recovery
from emulator.runstore.texts import NotJsonError, child
from host.model.time import RealTime, timestamp
from host.sqlite import DatabaseError

logger = logging.getLogger("takohost.runstore")

TOUCH_EVERY_S = 30.0
SILENT_AFTER_MS = 360_000
EXECUTING = ("running",)
"""Statuses that say that a leg is executing."""


@dataclass(frozen=True, slots=True)
class LegWatch:
    """Touches the row of one executing leg. `now` gives real time's instant; `abort` is called at most once."""

    store: ReadsRuns
    scope: StoredRunScope
    real_time: RealTime
    now: Callable[[], str]
    abort: Callable[[str], None]

    async def keep(self) -> None:
        """Touch every 30 s until the leg is aborted; cancel it when the leg has ended."""
        if not isinstance(self.store, TouchesRuns):
            return
        while True:
            await self.real_time.sleep_s(TOUCH_EVERY_S)
            reason = await self._touch(self.store)
            if reason is not None:
                self.abort(reason)
                return

    async def _touch(self, store: TouchesRuns) -> str | None:
        """Why the leg must end, or None."""
        try:
            found = await store.touch_run(RunAddress(self.scope.workflow_id, self.scope.run_id), self.now())
        except (RunStoreError, DatabaseError) as error:
            logger.warning("run %r could not be touched: %s", self.scope.run_id, error)
            return None
        if found is Liveness.SETTLED:
            return "another writer settled the run"
        if found is Liveness.ABSENT and self.scope.row_stored and isinstance(self.store, GuardsStoredRuns):
            return "the run's row is gone"
        return None


class SettleOutcome(StrEnum):
    """What became of a silent run."""

    SETTLED = "settled"
    CHANGED = "changed since it was read"
    NOT_SILENT = "not silent, not executing, or settled already"
    LEG_MAY_ACT = "its leg is not known to have stopped"
    NOT_POSSIBLE = "the store replays, or cannot touch and replace"


async def settle_silent(
    store: ReadsRuns, recovery: Recovery, row: RunRow, now_ms: int, leg_is_stopped: bool
) -> SettleOutcome:
    """Settle a run that was read silent, by one replace of exactly that row; it is never executed again.

    `now_ms` is real time. Raises `RunLifecycleBlockedError` beside a disputed operation.
    """
    if recovery is not Recovery.SETTLE or not isinstance(store, TouchesRuns):
        return SettleOutcome.NOT_POSSIBLE
    if not isinstance(store, ReplacesSnapshots):
        return SettleOutcome.NOT_POSSIBLE
    if not is_silent(row, now_ms):
        return SettleOutcome.NOT_SILENT
    if not leg_is_stopped:
        return SettleOutcome.LEG_MAY_ACT
    at = timestamp(now_ms)
    ending = end_snapshot(row.snapshot, at, Cause.INTERRUPTED, is_marked=True)
    is_replaced = await store.replace_snapshot(row, Replacement(ending.snapshot, at))
    return SettleOutcome.SETTLED if is_replaced else SettleOutcome.CHANGED


def is_silent(row: RunRow, now_ms: int) -> bool:
    """A status that says executing, unsettled, and 6 minutes without a touch. An unreadable instant is no silence."""
    touched_ms = milliseconds(row.updated_at)
    if touched_ms is None or now_ms - touched_ms < SILENT_AFTER_MS:
        return False
    try:
        status = scalar(child(row.snapshot, "status"))
    except NotJsonError:
        return False
    return status in EXECUTING and not is_settled(lifecycle_of(row.snapshot))
