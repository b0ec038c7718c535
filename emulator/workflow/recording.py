"""What one context's frames do to its history: a batch for each, and what follows once it is durable.

Owns the order (a batch is queued the moment its frame is read) and the fence of its one owner. Knows neither
processes nor how a context is stopped.
"""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeAlias

from emulator.d1 import Result, Statement
from emulator.runstore.address import RunAddress
from emulator.runstore.snapshot import RunFailure, RunStatus
from emulator.workflow import frames, notices, step_rows, transitions
from emulator.workflow.documents import DocumentRefused, check_document
from emulator.workflow.errors import Reason
from emulator.workflow.frames import ForgedFrame
from emulator.workflow.history import History, KnownStep, NewStep, Overlap, Step, StepState, TooManySteps
from emulator.workflow.surroundings import BEGUN, INTENDED, SETTLED, Surroundings
from host.sqlite.transaction import Row

_INLINE_CHARACTERS = 32_768
_MISMATCH = "steps overlapped, were left unsettled or changed their kind"
_TOO_MANY = "a history has at most 1024 step names"
_NO_DOCUMENT = "the return value of run is no document"


@dataclass(frozen=True, slots=True)
class Answer:
    """The isolate is told; reply id 0 wants no reply."""

    reply_id: int
    outcome: str
    text: str | None


@dataclass(frozen=True, slots=True)
class GaveUp:
    """An intent is durable: the context is to be stopped. `ending` says why, for people; `notice` is what they are
    told when the host ends the instance by itself."""

    ending: str
    notice: str | None = None


@dataclass(frozen=True, slots=True)
class Superseded:
    """Somebody else fenced the owner: nothing was written, and whoever did so stops the context."""


Outcome: TypeAlias = Answer | GaveUp | Superseded
Work: TypeAlias = Coroutine[Any, Any, Outcome]


async def check_off_loop(text: str | None) -> None:
    """Check a document without holding the event loop for a large one. Raises `DocumentRefused`."""
    if text is None:
        return
    if len(text) <= _INLINE_CHARACTERS:
        check_document(text)
    else:
        await asyncio.to_thread(check_document, text)


class StepRecorder:
    """The host's side of `step` for one owner. Each method reads a frame, queues its batch and returns what follows.

    All of them raise `ForgedFrame` for a frame the history does not allow.
    """

    def __init__(self, surroundings: Surroundings, address: RunAddress, owner: str, history: History) -> None:
        self._around = surroundings
        self._address = address
        self._owner = owner
        self._history = history

    def take(self, frame: frames.Frame) -> Work:
        """Dispatch by frame."""
        match frame:
            case frames.Begin():
                return self._begin(frame)
            case frames.Done():
                return self._done(frame)
            case frames.Failed():
                return self._failed(frame)
            case frames.Sleep() | frames.Wait():
                return self._pause(frame)
            case frames.Need():
                return self._need(frame)
            case _:
                return self._ended(frame)

    def conclude(
        self,
        to: RunStatus,
        ending: str,
        output: str | None = None,
        failure: RunFailure | None = None,
        notice: str | None = None,
    ) -> Work:
        """Record the intent to leave `running` for `to`."""
        intent = transitions.intend(self._address, self._owner, self._around.ids(), to, self._now_ms, output, failure)
        return self._gave_up(self._submit([intent]), GaveUp(ending, notice))

    @property
    def _now_ms(self) -> int:
        return self._around.clock.now_ms()

    def _submit(self, statements: list[Statement]) -> "asyncio.Future[list[Result]]":
        return self._around.database.submit(statements)

    async def _gave_up(self, batch: "asyncio.Future[list[Result]]", given_up: GaveUp) -> Outcome:
        results = await batch
        if not results[-1].is_applied:
            return Superseded()
        self._around.faults.reach(INTENDED)
        return given_up

    def _fail(self, reason: Reason, message: str, notice: str | None = None) -> Work:
        failure = RunFailure(reason.value, message)
        return self.conclude(RunStatus.ERRORED, reason.value, failure=failure, notice=notice)

    def _refuse(self, reason: Reason, words: str, message: str) -> Work:
        """The host ends the instance by itself; app code may have a say in the message, not in the words."""
        return self._fail(reason, message, notices.ended(reason, words))

    def _mismatch(self, detail: str) -> Work:
        return self._refuse(Reason.STEP_DEFINITION_MISMATCH, _MISMATCH, detail)

    def _refused(self, started: Overlap | TooManySteps) -> Work:
        if isinstance(started, Overlap):
            return self._mismatch(started.detail)
        return self._refuse(Reason.STEP_LIMIT_EXCEEDED, _TOO_MANY, _TOO_MANY)

    def _begin(self, frame: frames.Begin) -> Work:
        started = self._history.start_do(frame)
        match started:
            case NewStep(step):
                insert = step_rows.insert_pending(self._address, self._owner, step, self._now_ms)
                return self._begun(frame, self._submit([insert]))
            case KnownStep(step):
                begin = step_rows.begin_attempt(self._address, self._owner, step, self._now_ms)
                return self._begun(frame, self._submit([begin]))
            case _:
                return self._refused(started)

    async def _begun(self, frame: frames.Begin, batch: "asyncio.Future[list[Result]]") -> Outcome:
        [recorded] = await batch
        if not recorded.is_applied:
            return Superseded()
        if frame.reply_id:
            self._around.faults.reach(BEGUN)
        return Answer(frame.reply_id, "done", None)

    async def _done(self, frame: frames.Done) -> Outcome:
        step = self._history.effect_settled(frame)
        try:
            await check_off_loop(frame.document)
        except DocumentRefused as error:
            raise ForgedFrame(f"a result that is no document: {error}") from error
        return await self._settle(step, StepState.SUCCEEDED, frame.reply_id, frame.document)

    async def _settle(self, step: Step, state: StepState, reply_id: int, text: str | None) -> Outcome:
        now_ms = self._now_ms
        [settled] = await self._submit([step_rows.settle_effect(self._address, self._owner, step, state, text, now_ms)])
        if not settled.is_applied:
            return Superseded()
        return self._settled(step, state, reply_id, text)

    def _settled(self, step: Step, state: StepState, reply_id: int, text: str | None) -> Answer:
        self._history.settle(step.become(state))
        self._around.faults.reach(SETTLED)
        return Answer(reply_id, _told(state), text)

    def _failed(self, frame: frames.Failed) -> Work:
        step = self._history.effect_settled(frame)
        delay_s = self._history.delay_after(step)
        if delay_s is None:
            return self._settle(step, StepState.FAILED, frame.reply_id, frame.message)
        now_ms = self._now_ms
        to = RunStatus.SLEEPING if delay_s else RunStatus.PENDING
        due_at_ms = now_ms + delay_s * 1000
        batch = self._submit(
            [
                *step_rows.plan_retry(self._address, self._owner, step, frame.message, now_ms, due_at_ms),
                transitions.intend(self._address, self._owner, self._around.ids(), to, now_ms),
            ]
        )
        return self._gave_up(batch, GaveUp(f"retry of {step.name!r} after attempt {step.attempt}"))

    def _pause(self, frame: frames.Sleep | frames.Wait) -> Work:
        now_ms = self._now_ms
        if isinstance(frame, frames.Sleep):
            started, to = self._history.start_sleep(frame, now_ms), RunStatus.SLEEPING
        else:
            started, to = self._history.start_wait(frame, now_ms), RunStatus.WAITING
        if isinstance(started, Overlap | TooManySteps):
            return self._refused(started)
        return self._paused(started.step, frame.reply_id, to, self._submit(self._pause_batch(started, to, now_ms)))

    def _pause_batch(self, started: NewStep | KnownStep, to: RunStatus, now_ms: int) -> list[Statement]:
        """Record, resolve if that can be done now, else record the intent to park: the last but one statement."""
        address, owner, step = self._address, self._owner, started.step
        record = [step_rows.insert_pending(address, owner, step, now_ms)] if isinstance(started, NewStep) else []
        return [
            *record,
            *step_rows.settle_due(address, owner, now_ms),
            transitions.intend_while_pending(address, owner, self._around.ids(), to, step.name, now_ms),
            step_rows.select_outcome(address, step.name),
        ]

    async def _paused(self, step: Step, reply_id: int, to: RunStatus, batch: "asyncio.Future[list[Result]]") -> Outcome:
        *_, parked, found = await batch
        if parked.is_applied:
            self._around.faults.reach(INTENDED)
            return GaveUp(f"{to} in {step.name!r}")
        state, text = _outcome_of(found.rows)
        if state is None or state is StepState.PENDING:
            return Superseded()
        return self._settled(step, state, reply_id, text)

    async def _need(self, frame: frames.Need) -> Outcome:
        step = self._history.settled(frame)
        [found] = await self._around.database.query([step_rows.select_outcome(self._address, step.name)])
        _, text = _outcome_of(found.rows)
        return Answer(frame.reply_id, _told(step.state), text)

    async def _ended(self, frame: frames.Mismatch | frames.LimitReached | frames.Returned | frames.Threw) -> Outcome:
        if isinstance(frame, frames.Mismatch):
            return await self._mismatch(frame.detail)
        if isinstance(frame, frames.LimitReached):
            return await self._refused(TooManySteps())
        if (step := self._history.unsettled) is not None:
            return await self._mismatch(f"run ended while step {step.name!r} was unsettled")
        if isinstance(frame, frames.Threw):
            is_genuine = frame.failed_step is not None and self._history.has_failed(frame.failed_step)
            return await self._fail(Reason.STEP_FAILED if is_genuine else Reason.RUN_THREW, frame.message)
        try:
            await check_off_loop(frame.document)
        except DocumentRefused as error:
            return await self._refuse(Reason.RUN_THREW, _NO_DOCUMENT, f"{_NO_DOCUMENT}: {error}")
        return await self.conclude(RunStatus.COMPLETE, "complete", output=frame.document)


def _told(state: StepState) -> str:
    """The outcome word of a reply."""
    return "done" if state is StepState.SUCCEEDED else state.value


def _outcome_of(rows: tuple[Row, ...]) -> tuple[StepState | None, str | None]:
    if not rows:
        return None, None
    [(state, text)] = rows
    return StepState(str(state)), None if text is None else str(text)
