"""What happened to an instance, as plain values for people and for the management API. Reads only."""

from emulator.d1 import Statement, named
from emulator.runstore.address import RunAddress
from emulator.runstore.schema import AT_ADDRESS, STATUS
from emulator.runstore.snapshot import RunStatus, decode
from emulator.runstore.statements import at
from emulator.workflow import history_pages
from emulator.workflow.history_pages import count_of, instant_of
from emulator.workflow.states import shown
from emulator.workflow.surroundings import Surroundings
from emulator.workflow.views import ContextView, EventView, InstanceHistory, InstanceView, Page, StepView
from host.model.time import timestamp
from host.sqlite import Value
from host.sqlite.transaction import Row

_INSTANCES = f"""
SELECT runs.rowid, runs.workflow_id, runs.run_id, {STATUS}, created_at, updated_at, d.due_at_ms
FROM runs LEFT JOIN workflow_due d ON d.workflow_id = runs.workflow_id AND d.run_id = runs.run_id
"""
_EVENTS = f"""
SELECT accepted_ord, type, accepted_at_ms, size_bytes FROM workflow_events WHERE {AT_ADDRESS} ORDER BY accepted_ord
"""


class Inspection:
    """Reads histories as they are committed."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._around = surroundings

    async def knows(self, workflow_uid: str) -> bool:
        """Whether there is an instance space of that uid; a deleted one is unknown."""
        known = "SELECT 1 FROM workflow_gates WHERE workflow_id = ? AND state <> 'purged'"
        [found] = await self._around.database.query([Statement(known, (workflow_uid,))])
        return bool(found.rows)

    async def instances(
        self, workflow_uid: str | None = None, after: int = 0, most: int = -1
    ) -> tuple[InstanceView, ...]:
        """In order of creation those of one Workflow, or all; the page of `most` behind the place `after`."""
        of_workflow = "TRUE" if workflow_uid is None else "runs.workflow_id = :workflow_id"
        sql = f"{_INSTANCES} WHERE {of_workflow} AND runs.rowid > :after ORDER BY runs.rowid LIMIT :most"
        values: dict[str, Value] = {"workflow_id": workflow_uid, "after": after, "most": most}
        [found] = await self._around.database.query([named(sql, values)])
        return tuple(_instance(row) for row in found.rows)

    async def history(self, workflow_uid: str, instance_id: str) -> InstanceHistory | None:
        """The history of one instance on one snapshot, or none when there is no such instance.

        Of many contexts and steps it has the first page: `contexts` and `steps` give the others, as committed by then.
        """
        address = RunAddress(workflow_uid, instance_id)
        one = f"{_INSTANCES} WHERE runs.workflow_id = :workflow_id AND runs.run_id = :run_id"
        texts = (one, f"SELECT snapshot FROM runs WHERE {AT_ADDRESS}", _EVENTS)
        instance, snapshot, events, contexts, *steps = await self._around.database.query(
            [
                *(named(text, at(address)) for text in texts),
                history_pages.select_contexts(address, 0),
                *history_pages.select_steps(address, 0),
            ]
        )
        if not instance.rows:
            return None
        stored = decode(str(snapshot.rows[0][0]))
        first_contexts, first_steps = history_pages.contexts_page(contexts), history_pages.steps_page(*steps)
        return InstanceHistory(
            instance=_instance(instance.rows[0]),
            params=stored.params,
            output=stored.output if stored.status is RunStatus.COMPLETE else None,
            reason=stored.error.reason if stored.error else None,
            message=stored.error.message if stored.error else None,
            contexts=first_contexts.items,
            steps=first_steps.items,
            events=tuple(_event(row) for row in events.rows),
            more_contexts_after=first_contexts.after,
            more_steps_after=first_steps.after,
        )

    async def contexts(self, workflow_uid: str, instance_id: str, after: int) -> Page[ContextView]:
        """The page of contexts behind the place `after`."""
        address = RunAddress(workflow_uid, instance_id)
        [found] = await self._around.database.query([history_pages.select_contexts(address, after)])
        return history_pages.contexts_page(found)

    async def steps(self, workflow_uid: str, instance_id: str, after: int) -> Page[StepView]:
        """The page of steps behind the place `after`: their texts come to about 1 MiB, or it is a single step."""
        address = RunAddress(workflow_uid, instance_id)
        steps, attempts = await self._around.database.query(history_pages.select_steps(address, after))
        return history_pages.steps_page(steps, attempts)


def _instance(row: Row) -> InstanceView:
    order, workflow_id, run_id, status, created_at, updated_at, due_at_ms = row
    return InstanceView(
        ord=count_of(order),
        workflow_uid=str(workflow_id),
        instance_id=str(run_id),
        status="unreadable" if status is None else shown(RunStatus(str(status))),
        created_at=str(created_at),
        updated_at=str(updated_at),
        due_at=instant_of(due_at_ms),
    )


def _event(row: Row) -> EventView:
    order, event_type, accepted_at_ms, size_bytes = row
    return EventView(count_of(order), str(event_type), timestamp(count_of(accepted_at_ms)), count_of(size_bytes))
