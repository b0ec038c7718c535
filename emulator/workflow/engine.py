"""The workflow engine as a whole: wires its parts over one database and starts and stops them in order."""

import asyncio
from collections.abc import Callable, Iterable

from emulator.catalog import Catalog
from emulator.contexts import Notice, Runners
from emulator.d1 import Database
from emulator.workflow import context_rows
from emulator.workflow.executions import Executions
from emulator.workflow.gates import Gates
from emulator.workflow.inspection import Inspection
from emulator.workflow.instances import Instances
from emulator.workflow.recovery import Orphan, recover
from emulator.workflow.retention import Retention
from emulator.workflow.scheduler import Scheduler
from emulator.workflow.sessions import Session
from emulator.workflow.surroundings import Surroundings, logger
from host.model.faults import FaultPoints
from host.model.private_keys import PrivateKeys
from host.model.time import Clock, RealTime

MAX_CONTEXTS = 1000
_LOOK_AGAIN_S = 2.0


class Engine:
    """Instances of Workflows on the rows of one database.

    `gates` is the WorkflowPort, `instances` the caller's operations, `inspection` the histories. Made by `open`,
    which brings what an earlier host left behind into order; nothing starts before `start`.
    """

    def __init__(self, surroundings: Surroundings, executions: Executions, max_contexts: int) -> None:
        self._around = surroundings
        self._executions = executions
        self._scheduler = Scheduler(surroundings, executions, max_contexts)
        self._retention = Retention(surroundings)
        self.gates = Gates(surroundings, executions)
        self.instances = Instances(surroundings, executions)
        self.inspection = Inspection(surroundings)

    @classmethod
    async def open(
        cls,
        database: Database,
        clock: Clock,
        real_time: RealTime,
        ids: Callable[[], str],
        faults: FaultPoints,
        runners: Runners,
        random: Callable[[], float],
        is_alive: Callable[[int, str], bool],
        keys: PrivateKeys,
        tell: Callable[[Notice], None],
        max_contexts: int = MAX_CONTEXTS,
    ) -> "Engine":
        """Recover and be ready to admit. `ids` gives a new unique token at each call, `random` a number in [0, 1).

        `is_alive(pid, process_started)` says whether that very process exists; `tell` brings a notice before people.
        Raises `DatabaseError`.
        """
        surroundings = Surroundings(
            database, Catalog(database, keys), clock, real_time, ids, faults, runners, random, is_alive, tell
        )
        executions = Executions(surroundings.due_bell, surroundings.timer_bell, surroundings.activity)
        await recover(surroundings, executions)
        return cls(surroundings, executions, max_contexts)

    def start(self) -> None:
        """Let due instances start, and those that ended long ago go."""
        self._scheduler.start()
        self._retention.start()

    async def drain(self) -> None:
        """Start nothing any more and return once every context has ended or parked. The caller sets a limit."""
        await self._scheduler.stop()
        while len(self._executions):
            heard = self._around.activity.count
            if len(self._executions):
                await self._around.activity.after(heard)

    async def close(self) -> None:
        """Start nothing any more, stop every context with evidence and leave its instance to be replayed."""
        await self._scheduler.stop()
        await self._retention.stop()
        await self._unless_short(asyncio.create_task(self._requeue(self._sessions(), "host closed")))
        for orphan in self._orphans():
            orphan.ending.cancel()
            await asyncio.wait([orphan.ending])

    async def _unless_short(self, closing: "asyncio.Task[None]") -> None:
        """Wait, but not for room: what is not recorded now is found out at the next start, as after a kill."""
        while not closing.done():
            pause = asyncio.create_task(self._around.real_time.sleep_s(_LOOK_AGAIN_S))
            await asyncio.wait((closing, pause), return_when=asyncio.FIRST_COMPLETED)
            pause.cancel()
            if not closing.done() and self._around.shortage.is_on:
                logger.warning("there is no room to record the end of contexts: the next start does")
                closing.cancel()
                for session in self._sessions():
                    session.abandon()
                await asyncio.wait([closing])
                return
        await closing

    def deployments_changed(self) -> None:
        """Weights were put in or out of force: instances that had no Version may start now."""
        self._around.ring()

    async def idle(self) -> None:
        """Return when no context executes and nothing is due at this instant. The caller sets a limit of real time."""
        while True:
            heard = self._around.activity.count
            if not len(self._executions) and not await self._has_due() and self._rested_since(heard):
                return
            await self._around.activity.after(heard)

    def _rested_since(self, heard: int) -> bool:
        """Whether nothing has begun or ended meanwhile: what ended may have left an instance that is due now."""
        return not len(self._executions) and self._around.activity.count == heard

    async def _has_due(self) -> bool:
        return await self._retention.has_due() or await self._scheduler.has_due()

    async def next_due_ms(self) -> int | None:
        """The earliest contract instant at which something starts or expires; none when nothing ever will."""
        return await self._scheduler.next_ms()

    def executing(self) -> tuple[tuple[str, str], ...]:
        """Workflow uid and instance id of what executes now, to name what holds an advance of the clock."""
        return tuple((e.address.workflow_id, e.address.run_id) for e in self._executions.all())

    async def is_executing(self, version_uid: str) -> bool:
        """Whether a context of the Version runs or starts, or one of an earlier host may still run (WV-09, WD-10)."""
        [found] = await self._around.database.query([context_rows.select_unproven_of(version_uid)])
        return bool(found.rows)

    async def stop_version(self, version_uid: str) -> None:
        """Stop the contexts of a Version that left the weights; their instances go back to the queue (WD-04)."""
        await self._requeue((s for s in self._sessions() if s.version_uid == version_uid), "version withdrawn")

    async def stop_worker(self, worker_uid: str) -> None:
        """Stop the contexts of a Worker whose Deployment was retired; their instances go back to the queue (WD-07)."""
        await self._requeue((s for s in self._sessions() if s.worker_uid == worker_uid), "deployment retired")
        for orphan in self._orphans():
            await orphan.end("deployment retired")

    def _sessions(self) -> list[Session]:
        return [execution for execution in self._executions.all() if isinstance(execution, Session)]

    def _orphans(self) -> list[Orphan]:
        return [execution for execution in self._executions.all() if isinstance(execution, Orphan)]

    async def _requeue(self, sessions: Iterable[Session], ending: str) -> None:
        pending = [session.requeue(ending) for session in sessions]
        if pending:
            await asyncio.gather(*pending)
