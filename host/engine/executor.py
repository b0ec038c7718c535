"""Carries accepted Operations out: take up, call the Form, settle; and all again after a crash (HA-46, HA-81).

Each Operation has one task. A task that loses track of what it sent writes `reconciling` and repeats the same work
later; a settlement names its lease, so a late one changes nothing. There is no expiry of leases: the state directory
belongs to one host at a time, and a new host takes up whatever it finds running.
"""

import asyncio
import logging
from collections.abc import Callable
from enum import StrEnum
from typing import assert_never

from host.engine.limits import Limits
from host.engine.losses import Losses
from host.engine.settlement import affected_by, settle_failure, settle_success, settle_without_inputs
from host.engine.taking import Asked, Decided, Taken, Taking, Waiting, take_up
from host.engine.vault import Vault
from host.engine.waiters import Waiters
from host.forms.form import ApplyFailed, Outcome
from host.forms.registry import FormRegistry
from host.model.errors import FailureCode
from host.model.faults import FaultPoints, register
from host.model.json import JsonObject
from host.model.operation_states import Action, Effect, Status
from host.model.records import Failure
from host.model.room import NO_ROOM, lacks_room
from host.model.time import Clock, RealTime
from host.ports import ArtifactRefused, Backend, BackendError, BackendUnavailable, CodeRejected, SecretsMissing
from host.sqlite import Database, DatabaseError, Transaction
from host.store.operations import LeaseLost, lose_track, unfinished_operations

AFTER_TAKE = register("host.execute.after_take", "an Operation is durably running, the backend was not called")
AFTER_BACKEND = register("host.execute.after_backend", "the backend did the work, the settlement is not written")
BEFORE_CATCH_UP = register(
    "host.execute.before_catch_up", "a failure is durable, what was found out meanwhile is not shown yet"
)
AFTER_SETTLE = register("host.execute.after_settle", "a settlement is durable, nobody has been told")
AFTER_RECONCILING = register("host.recover.after_reconciling", "what ran at the crash reconciles, nothing is retried")

_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 5.0
_log = logging.getLogger(__name__)


class _Step(StrEnum):
    SETTLED = "settled"
    WAITING = "waiting"
    UNKNOWN = "unknown"


class Executor:
    """Runs at most `limits.running_operations` at a time."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        real_time: RealTime,
        backend: Backend,
        forms: FormRegistry,
        faults: FaultPoints,
        limits: Limits,
        vault: Vault,
        losses: Losses,
        waiters: Waiters,
    ) -> None:
        self._database = database
        self._clock = clock
        self._real_time = real_time
        self._backend = backend
        self._forms = forms
        self._faults = faults
        self._limits = limits
        self._vault = vault
        self._losses = losses
        self._waiters = waiters
        self._slots = asyncio.Semaphore(limits.running_operations)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self._is_closing = False

    async def recover(self) -> None:
        """Take up every unfinished Operation: what ran when the last host died reconciles first."""
        now = self._clock.now_ms()

        def reconcile(tx: Transaction) -> list[str]:
            found = unfinished_operations(tx)
            for operation in found:
                if operation.status is Status.RUNNING:
                    lose_track(tx, operation, None, now)
            return [operation.id for operation in found if operation.status is not Status.WAITING_INPUT]

        identifiers = await self._database.write(reconcile)
        self._faults.reach(AFTER_RECONCILING)
        for operation_id in identifiers:
            self.schedule(operation_id)

    def schedule(self, operation_id: str) -> None:
        """Carry the Operation out in the background; called for a running one, it looks again afterwards."""
        if operation_id in self._tasks:
            self._again.add(operation_id)
            return
        task = asyncio.create_task(self._carry_out(operation_id), name=f"operation {operation_id}")
        self._tasks[operation_id] = task
        task.add_done_callback(lambda ended: self._ended(operation_id, ended))

    async def close(self) -> None:
        """Stop at once; what is unfinished is taken up by the next host."""
        self._is_closing = True
        tasks = tuple(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, operation_id: str, task: asyncio.Task[None]) -> None:
        """Inputs may have come between the Operation's last write and this moment."""
        del self._tasks[operation_id]
        if operation_id in self._again:
            self._again.discard(operation_id)
            if not self._is_closing and not task.cancelled():
                self.schedule(operation_id)

    async def _carry_out(self, operation_id: str) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            next_settlement = self._waiters.next_settlement
            async with self._slots:
                step = await self._attempt(operation_id)
            match step:
                case _Step.SETTLED:
                    self._waiters.announce(operation_id)
                    return
                case _Step.WAITING:
                    await next_settlement.wait()
                case _Step.UNKNOWN:
                    await self._real_time.sleep_s(pause_s)
                    pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
                case other:
                    assert_never(other)

    async def _attempt(self, operation_id: str) -> _Step:
        try:
            taking = await self._database.write(self._taking(operation_id))
        except DatabaseError as error:
            _tell(error, "operation %s cannot be taken up", operation_id)
            return _Step.UNKNOWN
        match taking:
            case Decided() | Asked():
                return _Step.SETTLED
            case Waiting():
                return _Step.WAITING
            case Taken():
                return await self._carry_taken(taking)
            case other:
                assert_never(other)

    async def _carry_taken(self, taken: Taken) -> _Step:
        try:
            self._faults.reach(AFTER_TAKE)
            await self._work_and_settle(taken)
            self._faults.reach(AFTER_SETTLE)
        except LeaseLost:
            return _Step.SETTLED
        except Exception as error:
            return await self._lose_track(taken, error)
        return _Step.SETTLED

    def _taking(self, operation_id: str) -> Callable[[Transaction], Taking]:
        now = self._clock.now_ms()
        return lambda tx: take_up(tx, operation_id, self._forms, self._vault, now, self._faults.reach)

    async def _work_and_settle(self, taken: Taken) -> None:
        try:
            outcome = await self._work(taken)
        except ApplyFailed as failed:
            await self._settle_failure(taken, failed)
            return
        except SecretsMissing as missing:
            await self._settle_without_inputs(taken, str(missing))
            return
        await self._losses.look_again()
        observations = await self._observe_affected(taken)
        self._faults.reach(AFTER_BACKEND)
        now, until = self._retention()
        await self._database.write(lambda tx: settle_success(tx, taken, outcome, observations, self._forms, now, until))

    async def _work(self, taken: Taken) -> Outcome:
        """Raises `ApplyFailed` or `SecretsMissing` when the end is known, `BackendUnavailable` when it is not."""
        if taken.verdict is not None:
            raise taken.verdict
        try:
            if taken.operation.action is Action.DELETE:
                await taken.form.retire(taken.task, self._backend)
                return Outcome()
            return await taken.form.apply(taken.task, self._backend)
        except (BackendUnavailable, SecretsMissing):
            raise
        except BackendError as error:
            raise ApplyFailed(_failure_code(error), str(error), Effect.PARTIAL) from error

    async def _settle_failure(self, taken: Taken, failed: ApplyFailed) -> None:
        now, until = self._retention()
        if failed.code is FailureCode.ARTIFACT_REFUSED:
            await self._losses.look()  # it may have met held bytes that are lost
        await self._database.write(lambda tx: settle_failure(tx, taken, failed, now, until))
        await self._catch_up()

    async def _settle_without_inputs(self, taken: Taken, missing: str) -> None:
        now, until = self._retention()
        await self._losses.look()
        await self._database.write(lambda tx: settle_without_inputs(tx, taken, self._vault, missing, now, until))
        await self._catch_up()

    async def _catch_up(self) -> None:
        """What was found out about the Resource while the failed change was pending shows now (HA-38)."""
        self._faults.reach(BEFORE_CATCH_UP)
        await self._losses.catch_up()

    def _retention(self) -> tuple[int, int]:
        """Now, and until when an Operation that ends now is kept (HA-54)."""
        now = self._clock.now_ms()
        return now, self._limits.retained_until(now)

    async def _observe_affected(self, taken: Taken) -> dict[str, JsonObject]:
        """One that cannot be asked now keeps its old observation and its old time."""
        observations: dict[str, JsonObject] = {}
        for resource in await self._database.read(lambda tx: affected_by(tx, taken)):
            form = self._forms.get(resource.form_url)
            if form is None:
                continue
            try:
                observations[resource.uid] = await form.observe(resource, self._backend)
            except BackendError:
                _log.warning("%s keeps its old observation: the backend does not answer", resource.uid)
        return observations

    async def _lose_track(self, taken: Taken, error: Exception) -> _Step:
        """A failure that proves nothing: the same work is repeated against the same backend identity (HA-46)."""
        if isinstance(error, BackendUnavailable):
            failure = Failure(FailureCode.BACKEND_UNAVAILABLE, str(error))
        elif lacks_room(error):
            _tell(error, "operation %s is tried again", taken.operation.id)
            failure = Failure(FailureCode.BACKEND_UNAVAILABLE, f"{NO_ROOM}; the host tries again")
        else:
            _log.error("operation %s: unexpected failure", taken.operation.id, exc_info=error)
            failure = Failure(FailureCode.INTERNAL_ERROR, "the host failed while it worked on this; it tries again")
        now = self._clock.now_ms()
        while True:
            try:
                await self._database.write(lambda tx: lose_track(tx, taken.operation, failure, now))
                return _Step.UNKNOWN
            except LeaseLost:
                return _Step.SETTLED
            except DatabaseError as unwritten:
                _tell(unwritten, "operation %s stays running in the records", taken.operation.id)
                await self._real_time.sleep_s(_LONGEST_PAUSE_S)


def _tell(error: Exception, text: str, operation_id: str) -> None:
    """One line for want of room, which is nobody's mistake; anything else with its traceback."""
    if lacks_room(error):
        _log.warning(f"{text}: %s", operation_id, error)
    else:
        _log.error(text, operation_id, exc_info=error)


def _failure_code(error: BackendError) -> FailureCode:
    match error:
        case ArtifactRefused():
            return FailureCode.ARTIFACT_REFUSED
        case CodeRejected():
            return FailureCode.CODE_REJECTED
        case _:
            return FailureCode.BACKEND_FAILED
