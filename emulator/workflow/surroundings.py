"""What every part of the engine is given, the durable ways to write, and the named points between two writes."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from emulator.catalog import Catalog
from emulator.contexts import Notice, Runners
from emulator.d1 import Database, Result, Statement
from emulator.workflow.bell import Bell
from emulator.workflow.shortage import Shortage
from host.model.faults import FaultPoints, InjectedFault, register
from host.model.time import Clock, RealTime
from host.sqlite import DatabaseError

logger = logging.getLogger("takohost.workflow")

ADMITTED = register("workflow.admitted", "after an instance is admitted, before its creator is answered")
MARKED = register("workflow.due_marked", "after due instances are queued, before a context is started for any of them")
CLAIMED = register("workflow.claimed", "after a context is claimed and its Version pinned, before it is started")
STARTED = register("workflow.context_started", "after a context was started, before its process is recorded")
RECORDED = register("workflow.context_recorded", "after the process is recorded, before the first frame is read")
BEGUN = register("workflow.step_begun", "after the begin of an attempt is recorded, before an effect with a policy")
SETTLED = register("workflow.step_settled", "after a step's outcome is durable, before the isolate is told")
INTENDED = register("workflow.intent_recorded", "after an intent has fenced the owner, before the code is stopped")
STOPPED = register("workflow.context_stopped", "after the code was stopped, before evidence and status are written")
PUBLISHED = register("workflow.status_published", "after evidence and status are durable, before anybody is told")
ACCEPTED = register("workflow.event_accepted", "after an event is durable, before its sender is answered")
FENCED = register("workflow.lost_owners_fenced", "after start-up fenced dead owners, before their ends are recorded")
RECOVERED = register("workflow.recovered", "after start-up recorded the ends of dead owners, before the due index")
CLOSING = register("workflow.gate_closing", "after a Workflow's gate closed, before its owners are fenced")
PROVEN = register("workflow.stops_proven", "after a closing Workflow's code has stopped, before it is purged")
RETIRED = register("workflow.history_purged", "after a batch of outdated histories was purged, before the next one")
PURGED = register("workflow.gate_purged", "after a Workflow was purged, before its Operation is told")

_PATIENCE_S = 0.2
_PATIENCE_WITHOUT_ROOM_S = 0.5


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The engine's constructor arguments; `ids` gives a new unique token, `random` a number in [0, 1).

    `tell` is given what people should know of the host's own doing. `due_bell` rings when something may start,
    `timer_bell` when an instant to act at may have come nearer, `activity` when something has been done; `shortage` is
    told of every write that failed.
    """

    database: Database
    catalog: Catalog
    clock: Clock
    real_time: RealTime
    ids: Callable[[], str]
    faults: FaultPoints
    runners: Runners
    random: Callable[[], float]
    is_alive: Callable[[int, str], bool]
    tell: Callable[[Notice], None]
    due_bell: Bell = field(default_factory=Bell)
    timer_bell: Bell = field(default_factory=Bell)
    activity: Bell = field(default_factory=Bell)
    shortage: Shortage = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "shortage", Shortage(self.real_time))

    async def commit(self, statements: Sequence[Statement]) -> list[Result]:
        """Run a batch after which something may be due; the bells ring even when the caller has left meanwhile."""
        batch = self.database.submit(statements)
        batch.add_done_callback(lambda _: self.ring())
        return await asyncio.shield(batch)

    def ring(self) -> None:
        """Something may start or fall due that could not before."""
        self.due_bell.ring()
        self.timer_bell.ring()

    async def insist(self, statements: Sequence[Statement], before: str | None = None) -> list[Result]:
        """Run a batch that may be repeated until it is durable: a locked or full store delays it, nothing drops it.

        `before` names the fault point that lies before the batch.
        """
        while True:
            try:
                if before is not None:
                    self.faults.reach(before)
                return await self.database.batch(statements)
            except (DatabaseError, InjectedFault) as error:
                await self.pause_after(error, "a write is repeated")

    async def pause_after(self, error: Exception, what: str) -> None:
        """Wait before something that has failed is tried again; `what` is said of it in the log."""
        if self.shortage.note(error):
            await self.real_time.sleep_s(_PATIENCE_WITHOUT_ROOM_S)
        else:
            logger.warning("%s: %s", what, error)
            await self.real_time.sleep_s(_PATIENCE_S)

    def spawn(self, tasks: "set[asyncio.Task[None]]", task: "asyncio.Task[None]") -> "asyncio.Task[None]":
        """Keep a task alive until it is done."""
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        return task
