"""What a caller may do with instances: create, look up, send events, terminate. Knows no binding and no context.

Every operation is one batch that carries its own conditions; what it was refused for is read in the same batch.
"""

import asyncio
from dataclasses import dataclass

from emulator.d1 import Result, Statement, named
from emulator.runstore import statements
from emulator.runstore.address import RunAddress
from emulator.runstore.schema import AT_ADDRESS, STATUS
from emulator.runstore.snapshot import TERMINAL, Lifecycle, RunStatus, Snapshot, decode
from emulator.workflow import due, event_rows, transitions
from emulator.workflow.documents import DocumentRefused, DocumentTooLarge
from emulator.workflow.errors import ErrorName, InstanceRefused
from emulator.workflow.event_rows import EventMessage
from emulator.workflow.executions import Executions
from emulator.workflow.guards import IS_READY
from emulator.workflow.names import is_name
from emulator.workflow.recording import check_off_loop
from emulator.workflow.states import shown
from emulator.workflow.surroundings import ACCEPTED, ADMITTED, INTENDED, PUBLISHED, Surroundings
from host.model.time import LATEST_MS, timestamp


@dataclass(frozen=True, slots=True)
class InstanceStatus:
    """DW-12: `output_text` only when complete, `reason` and `message` only when errored."""

    status: str
    output_text: str | None = None
    reason: str | None = None
    message: str | None = None


def _unknown(run_id: str) -> InstanceRefused:
    return InstanceRefused(ErrorName.UNKNOWN_INSTANCE, f"no instance {run_id!r}")


def _require_name(value: str, what: str) -> None:
    if not is_name(value):
        raise InstanceRefused(ErrorName.TYPE_ERROR, f"{what} is not a text of 1 to 256 Unicode scalar values")


async def _require_document(text: str | None, otherwise: ErrorName, what: str) -> None:
    try:
        await check_off_loop(text)
    except DocumentTooLarge as error:
        raise InstanceRefused(ErrorName.DOCUMENT_TOO_LARGE, f"{what}: {error}") from error
    except DocumentRefused as error:
        raise InstanceRefused(otherwise, f"{what}: {error}") from error


class Instances:
    """The instances of every Workflow. All methods raise `InstanceRefused`, and `DatabaseError` of a failing store."""

    def __init__(self, surroundings: Surroundings, executions: Executions) -> None:
        self._around = surroundings
        self._executions = executions
        self._endings: set[asyncio.Task[None]] = set()

    async def create(self, workflow_uid: str, instance_id: str | None, params_text: str | None) -> str:
        """Admit an instance and return its id (DW-10, DW-11, DW-15, DW-18)."""
        run_id = self._around.ids() if instance_id is None else instance_id
        _require_name(run_id, "id")
        await _require_document(params_text, ErrorName.INVALID_PARAMS, "params")
        address = RunAddress(workflow_uid, run_id)
        admitted, *_, found = await self._around.commit(self._admission(address, params_text))
        if not admitted.is_applied:
            raise self._not_admitted(run_id, found)
        self._around.faults.reach(ADMITTED)
        return run_id

    def _admission(self, address: RunAddress, params_text: str | None) -> list[Statement]:
        now_ms = self._around.clock.now_ms()
        lifecycle = Lifecycle(
            revision=1,
            owner=self._around.ids(),
            deadline_at=timestamp(min(now_ms + due.LIFETIME_MS, LATEST_MS)),
        )
        snapshot = Snapshot(RunStatus.PENDING, timestamp(now_ms), lifecycle, params=params_text)
        exists = f"SELECT EXISTS (SELECT 1 FROM runs WHERE {AT_ADDRESS})"
        return [
            statements.insert_initial(address, snapshot, None, IS_READY),
            *due.refresh(address),
            named(exists, statements.at(address)),
        ]

    def _not_admitted(self, run_id: str, found: Result) -> InstanceRefused:
        if found.rows[0][0]:
            return InstanceRefused(ErrorName.INSTANCE_EXISTS, f"instance {run_id!r} exists")
        return InstanceRefused(ErrorName.BACKEND_UNAVAILABLE, "the Workflow is not ready: no Deployment runs its class")

    async def get(self, workflow_uid: str, instance_id: str) -> str:
        """The id of an instance that exists."""
        await self._snapshot(RunAddress(workflow_uid, instance_id))
        return instance_id

    async def status(self, workflow_uid: str, instance_id: str) -> InstanceStatus:
        """Status, and the output or error that belongs to it."""
        snapshot = await self._snapshot(RunAddress(workflow_uid, instance_id))
        is_errored = snapshot.status is RunStatus.ERRORED and snapshot.error is not None
        return InstanceStatus(
            status=shown(snapshot.status),
            output_text=snapshot.output if snapshot.status is RunStatus.COMPLETE else None,
            reason=snapshot.error.reason if is_errored and snapshot.error else None,
            message=snapshot.error.message if is_errored and snapshot.error else None,
        )

    async def _snapshot(self, address: RunAddress) -> Snapshot:
        _require_name(address.run_id, "id")
        select = named(f"SELECT snapshot FROM runs WHERE {AT_ADDRESS}", statements.at(address))
        [found] = await self._around.database.query([select])
        if not found.rows:
            raise _unknown(address.run_id)
        return decode(str(found.rows[0][0]))

    async def send_event(self, workflow_uid: str, instance_id: str, event_type: str, payload_text: str | None) -> None:
        """Accept an event durably and in order (DW-16)."""
        _require_name(instance_id, "id")
        _require_name(event_type, "type")
        await _require_document(payload_text, ErrorName.TYPE_ERROR, "payload")
        address = RunAddress(workflow_uid, instance_id)
        event = EventMessage(event_type, payload_text)
        handed, queued, *_, run, gate = await self._around.commit(
            [
                *event_rows.accept(address, event, self._around.clock.now_ms()),
                *due.refresh(address),
                named(f"SELECT {STATUS} FROM runs WHERE {AT_ADDRESS}", statements.at(address)),
                named("SELECT state FROM workflow_gates WHERE workflow_id = :workflow_id", statements.at(address)),
            ]
        )
        if not handed.is_applied and not queued.is_applied:
            raise self._not_accepted(address, run, gate)
        self._around.faults.reach(ACCEPTED)

    def _not_accepted(self, address: RunAddress, run: Result, gate: Result) -> InstanceRefused:
        if not run.rows:
            return _unknown(address.run_id)
        if run.rows[0][0] in TERMINAL:
            return InstanceRefused(ErrorName.INSTANCE_TERMINAL, f"instance {address.run_id!r} has ended")
        if gate.rows != (("open",),):
            return InstanceRefused(ErrorName.BACKEND_UNAVAILABLE, "the Workflow is being deleted")
        return InstanceRefused(ErrorName.EVENT_QUEUE_FULL, "1024 events or 1048576 bytes are queued and unconsumed")

    async def terminate(self, workflow_uid: str, instance_id: str) -> None:
        """End the instance; returns once its code is known to have stopped and the status is durable (DW-17).

        A caller that leaves does not undo it.
        """
        _require_name(instance_id, "id")
        task = asyncio.create_task(self._terminate(RunAddress(workflow_uid, instance_id)))
        await asyncio.shield(self._around.spawn(self._endings, task))

    async def _terminate(self, address: RunAddress) -> None:
        now_ms, ids = self._around.clock.now_ms(), self._around.ids
        *_, found = await self._around.database.batch(
            [
                transitions.end_parked(address, ids(), RunStatus.TERMINATED, now_ms),
                transitions.end_running(address, ids(), RunStatus.TERMINATED, now_ms),
                event_rows.drop_unmatched(address),
                *due.refresh(address),
                named(f"SELECT {STATUS} FROM runs WHERE {AT_ADDRESS}", statements.at(address)),
            ]
        )
        if not found.rows:
            raise _unknown(address.run_id)
        is_running = found.rows[0][0] == RunStatus.RUNNING
        try:
            self._around.faults.reach(INTENDED if is_running else PUBLISHED)
        finally:
            if is_running:
                await self._executions.end(address, "terminated")
        self._around.activity.ring()
