"""One context of an instance from claim to stop: frames in, replies out, and exactly one end.

Owns when the code is stopped. The history is the recorder's, the statuses are parking's.
"""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, assert_never

from emulator.contexts import Loss, Notice, RunnersBusy, RunningContext, StopEvidence
from emulator.d1 import Statement
from emulator.runstore.address import RunAddress
from emulator.runstore.liveness import LegWatch
from emulator.runstore.scopes import StoredRunScope
from emulator.runstore.snapshot import RunFailure, RunStatus
from emulator.runstore.store import FencedRunStore
from emulator.workflow import context_rows, frames, notices, parking, transitions
from emulator.workflow.claims import Claim, claim
from emulator.workflow.due import DueInstance
from emulator.workflow.errors import Reason
from emulator.workflow.frames import ForgedFrame
from emulator.workflow.recording import Answer, GaveUp, Outcome, StepRecorder, Superseded, Work
from emulator.workflow.surroundings import CLAIMED, RECORDED, STARTED, Surroundings, logger
from host.model.time import timestamp

_PATIENCE_S = 0.2


class Session:
    """A context that starts, executes or stops. `ended` is done once its end is durable."""

    def __init__(self, surroundings: Surroundings, due_instance: DueInstance) -> None:
        self.address: RunAddress = due_instance.address
        self.context_id = surroundings.ids()
        self.version_uid: str | None = None
        self.worker_uid = due_instance.worker_uid
        self._around = surroundings
        self._due = due_instance
        self._claim: Claim | None = None
        self._recorder: StepRecorder | None = None
        self._running: RunningContext | None = None
        self._lost: tuple[StopEvidence, Loss] | None = None
        self._early: list[str] | None = []
        self._is_stopping = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._finishing: asyncio.Task[None] | None = None
        self._touching: asyncio.Task[None] | None = None
        loop = asyncio.get_running_loop()
        self.claimed: asyncio.Future[bool] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()
        self._launching = asyncio.create_task(self._launch(), name=f"context {self.context_id}")

    def end(self, ending: str) -> Awaitable[None]:
        """Stop the code, record the evidence and publish the recorded intent. Idempotent."""
        if self._finishing is None:
            self._is_stopping = True
            self._finishing = asyncio.create_task(self._finish(ending), name=f"end of {self.context_id}")
        return asyncio.shield(self.ended)

    def requeue(self, ending: str) -> Awaitable[None]:
        """Give the instance back to the queue, to go on from its history in a new context."""
        self._is_stopping = True
        self._follow_up(self._give_back(ending))
        return asyncio.shield(self.ended)

    def abandon(self) -> None:
        """Write nothing any more: for a host that ends and cannot record it. The code is stopped with its process."""
        self._is_stopping = True
        for task in (*self._tasks, self._finishing, self._touching):
            if task is not None:
                task.cancel()

    async def _launch(self) -> None:
        try:
            self._claim = await claim(self._around, self._due, self.context_id)
        except Exception as error:
            self._warn(error, f"instance {self.address.run_id!r} cannot be claimed")
        if not self.claimed.done():
            self.claimed.set_result(self._claim is not None)
        if self._claim is None:
            self.end("not claimed")
            return
        self.version_uid = self._claim.version.version_uid
        self._recorder = StepRecorder(self._around, self.address, self._claim.owner, self._claim.history())
        try:
            self._around.faults.reach(CLAIMED)
            await self._start(self._claim)
        except Exception as error:
            self._warn(error, f"context {self.context_id} cannot start")
            self.requeue(f"not started: {error}")

    async def _start(self, taken: Claim) -> None:
        while not self._is_stopping:
            now_ms = self._around.clock.now_ms() if self._around.clock.is_controlled else None
            try:
                self._running = await self._around.runners.start(taken.start(now_ms), self._on_frame, self._on_lost)
                break
            except RunnersBusy as error:
                logger.info("context %s waits for a runner: %s", self.context_id, error)
                await self._around.real_time.sleep_s(_PATIENCE_S)
        if self._running is None:
            return
        self._touching = asyncio.create_task(self._watch().keep(), name=f"touch {self.context_id}")
        self._around.faults.reach(STARTED)
        process = context_rows.record_process(self.context_id, self._running.pid, self._running.process_started)
        await self._around.insist([process])
        self._around.faults.reach(RECORDED)
        early, self._early = self._early or [], None
        for text in early:
            self._on_frame(text)

    def _warn(self, error: Exception, what: str) -> None:
        """A line for each context, but not for want of room: that is all the engine's."""
        if not self._around.shortage.note(error):
            logger.warning("%s: %s", what, error)

    def _watch(self) -> LegWatch:
        """Touches the row while the context executes, in real time, dated by the clock (RS-21)."""
        scope = StoredRunScope(self.address.workflow_id, self.address.run_id, row_stored=True)
        return LegWatch(
            FencedRunStore(self._around.database),
            scope,
            self._around.real_time,
            now=lambda: timestamp(self._around.clock.now_ms()),
            abort=self._abort,
        )

    def _abort(self, reason: str) -> None:
        self.end(reason)

    def _on_frame(self, text: str) -> None:
        if self._is_stopping or self._recorder is None:
            return
        if self._early is not None:
            self._early.append(text)
            return
        try:
            work = self._recorder.take(frames.decode(text))
        except ForgedFrame as error:
            self._forged(error)
            return
        self._follow_up(self._answer(work))

    async def _answer(self, work: Work) -> None:
        try:
            outcome: Outcome = await work
        except ForgedFrame as error:
            self._forged(error)
            return
        match outcome:
            case Answer(reply_id, verdict, text):
                if reply_id and self._running is not None and not self._is_stopping:
                    now_ms = self._around.clock.now_ms()
                    self._running.send(frames.encode_reply(reply_id, verdict, text, now_ms))
            case GaveUp(ending, notice):
                if notice is not None:
                    self._tell(notice)
                self.end(ending)
            case Superseded():
                self.end("superseded")
            case other:
                assert_never(other)

    def _follow_up(self, work: Coroutine[Any, Any, None]) -> None:
        self._around.spawn(self._tasks, asyncio.create_task(self._guarded(work)))

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """A store that refuses a write must not leave code running that nobody answers."""
        try:
            await work
        except Exception as error:
            self._warn(error, f"context {self.context_id} is given back")
            self._is_stopping = True
            await self._give_back(f"given back: {error}")

    async def _give_back(self, ending: str) -> None:
        await asyncio.wait([self._launching])
        if self._claim is not None and self._finishing is None:
            now_ms = self._around.clock.now_ms()
            await self._around.insist(
                [transitions.intend(self.address, self._claim.owner, self._around.ids(), RunStatus.PENDING, now_ms)]
            )
        self.end(ending)

    def _on_lost(self, evidence: StopEvidence, loss: Loss) -> None:
        if self._lost is None:
            self._lost = (evidence, loss)
        if not self._is_stopping:
            self._is_stopping = True
            self._follow_up(self._bury(evidence, loss))

    def _forged(self, error: ForgedFrame) -> None:
        if self._is_stopping:
            return
        self._is_stopping = True
        logger.warning("context %s sent a frame that it cannot send: %s", self.context_id, error)
        self._follow_up(self._put_down(Loss("impossible frame", str(error))))

    async def _put_down(self, loss: Loss) -> None:
        evidence = await self._stop_code()
        if evidence is not None:
            await self._bury(evidence, loss)

    async def _bury(self, evidence: StopEvidence, loss: Loss) -> None:
        """The context died. The third death at one point of the history ends the instance, else it is replayed.

        Where others shared its process the death is not counted: one of them may have been to blame.
        """
        await asyncio.wait([self._launching])
        assert self._claim is not None
        now_ms, why = self._around.clock.now_ms(), str(loss)
        _, *death, replay = await self._around.insist(
            [
                context_rows.record_stop(self.context_id, evidence, timestamp(now_ms), why),
                *(self._count_death(self._claim.owner, why, now_ms) if evidence.is_own_fault else ()),
                transitions.intend(self.address, self._claim.owner, self._around.ids(), RunStatus.PENDING, now_ms),
            ]
        )
        self._tell(notices.lost(loss, death[-1] if death else None, replay))
        self.end(why)

    def _tell(self, sentence: str) -> None:
        notice = Notice(self.worker_uid, self.version_uid, self.address.run_id, self.context_id, sentence)
        self._around.tell(notice)

    def _count_death(self, owner: str, why: str, now_ms: int) -> list[Statement]:
        message = f"its context died three times at the same point of its history: {why}"
        return [
            context_rows.record_death(self.address, self.context_id),
            transitions.intend(
                self.address,
                owner,
                self._around.ids(),
                RunStatus.ERRORED,
                now_ms,
                failure=RunFailure(Reason.RUN_THREW.value, message),
                also=context_rows.DIED_TOO_OFTEN,
            ),
        ]

    async def _stop_code(self) -> StopEvidence | None:
        await asyncio.wait([self._launching])
        if self._lost is not None:
            return self._lost[0]
        if self._running is None:
            return None
        return await self._running.stop()

    async def _finish(self, ending: str) -> None:
        await asyncio.wait([self._launching])
        if self._touching is not None:
            self._touching.cancel()
        while self._claim is not None:
            try:
                evidence = await self._stop_code()
                await parking.finish(self._around, self.address, self.context_id, evidence, ending)
                break
            except Exception as error:
                await self._around.pause_after(error, f"the end of context {self.context_id} is repeated")
        self._let_go()
        if not self.ended.done():
            self.ended.set_result(None)

    def _let_go(self) -> None:
        """What points back here is held no more: the session is freed at once, and not by a collection, which stops all
        threads."""
        self._running = self._touching = self._recorder = None
