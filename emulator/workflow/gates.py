"""The gate of each Workflow: open, closing, purged for ever. The WorkflowPort of the Forms.

The gate is written first; admission, events and claims carry its state in their own statements, so that nothing
slips in while a Workflow is deleted (DW-06). Every call can be repeated by its Operation.
"""

import asyncio
from dataclasses import fields

from emulator.d1 import Statement, named
from emulator.runstore.schema import STATUS
from emulator.runstore.snapshot import RunStatus
from emulator.workflow import transitions
from emulator.workflow.executions import Executions
from emulator.workflow.states import shown
from emulator.workflow.surroundings import CLOSING, PROVEN, PURGED, Surroundings
from host.ports import BackendError, BackendUnavailable, InstanceCounts

_STOP_DEADLINE_S = 5.0
_OPEN = """
INSERT INTO workflow_gates (workflow_id, worker_uid, class_name, state, epoch) VALUES (?, ?, ?, 'open', 1)
ON CONFLICT (workflow_id) DO NOTHING
"""
_CLOSE = "UPDATE workflow_gates SET state = 'closing', epoch = epoch + 1 WHERE workflow_id = ? AND state = 'open'"
_IS_PURGEABLE = """
EXISTS (SELECT 1 FROM workflow_gates WHERE workflow_id = :workflow_id AND state = 'closing')
AND NOT EXISTS (SELECT 1 FROM workflow_contexts WHERE workflow_id = :workflow_id AND stop_kind IS NULL)
"""
_TABLES = ("workflow_events", "workflow_attempts", "workflow_steps", "workflow_due", "workflow_contexts", "runs")


class Gates:
    """Opens, counts and retires instance spaces."""

    def __init__(self, surroundings: Surroundings, executions: Executions) -> None:
        self._around = surroundings
        self._executions = executions

    async def open(self, workflow_uid: str, worker_uid: str, class_name: str) -> None:
        """Reserve an empty instance space (DW-08). Raises `BackendError` for a purged uid."""
        await self._around.database.batch([Statement(_OPEN, (workflow_uid, worker_uid, class_name))])
        if await self._state(workflow_uid) != "open":
            raise BackendError("the Workflow was deleted")

    async def counts(self, workflow_uid: str) -> InstanceCounts:
        """Instances by status (DW-04)."""
        select = f"SELECT {STATUS}, COUNT(*) FROM runs WHERE workflow_id = ? GROUP BY 1"
        [found] = await self._around.database.query([Statement(select, (workflow_uid,))])
        by_status = {shown(RunStatus(str(status))): count for status, count in found.rows if status is not None}
        known = {field.name for field in fields(InstanceCounts)}
        return InstanceCounts(**{name: int(str(count)) for name, count in by_status.items() if name in known})

    async def retire(self, workflow_uid: str) -> None:
        """Close, fence, prove stops, purge (DW-06). Raises `BackendUnavailable` while a stop is unproven."""
        await self._around.database.batch([Statement(_CLOSE, (workflow_uid,))])
        if await self._state(workflow_uid) in (None, "purged"):
            return
        self._around.faults.reach(CLOSING)
        fence = transitions.fence_workflow(workflow_uid, self._around.ids(), self._around.clock.now_ms())
        await self._around.database.batch([fence])
        await self._prove_stops(workflow_uid)
        self._around.faults.reach(PROVEN)
        *_, purged = await self._around.database.batch(_purge(workflow_uid))
        if not purged.is_applied and await self._state(workflow_uid) != "purged":
            raise BackendUnavailable("a context of the Workflow is not proven to have stopped")
        self._around.faults.reach(PURGED)
        self._around.ring()

    async def _prove_stops(self, workflow_uid: str) -> None:
        ends = asyncio.create_task(self._end_all(workflow_uid))
        deadline = asyncio.create_task(self._around.real_time.sleep_s(_STOP_DEADLINE_S))
        try:
            await asyncio.wait([ends, deadline], return_when=asyncio.FIRST_COMPLETED)
            if not ends.done():
                raise BackendUnavailable("code of the Workflow has not been stopped yet")
        finally:
            ends.cancel()
            deadline.cancel()
            await asyncio.wait([ends, deadline])

    async def _end_all(self, workflow_uid: str) -> None:
        """What executes goes on stopping when this is cancelled."""
        await asyncio.gather(*(e.end("workflow deleted") for e in self._executions.of_workflow(workflow_uid)))

    async def _state(self, workflow_uid: str) -> str | None:
        select = Statement("SELECT state FROM workflow_gates WHERE workflow_id = ?", (workflow_uid,))
        [found] = await self._around.database.query([select])
        return str(found.rows[0][0]) if found.rows else None


def _purge(workflow_uid: str) -> list[Statement]:
    """Drop every row of the uid and shut its gate for ever, iff every context has stopped."""
    values = {"workflow_id": workflow_uid}
    return [
        *(
            named(f"DELETE FROM {table} WHERE workflow_id = :workflow_id AND {_IS_PURGEABLE}", values)
            for table in _TABLES
        ),
        named(
            f"UPDATE workflow_gates SET state = 'purged' WHERE workflow_id = :workflow_id AND {_IS_PURGEABLE}", values
        ),
    ]
