"""Scripted isolates: Python bodies that speak the frame protocol of a context, as the real shim does."""

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from emulator.contexts import ContextStart, Loss, OnLost, RunningContext, StepRecord, StopEvidence

Document = dict[str, Any] | None
STOPPED_AT = "2026-01-01T00:00:00.000Z"


def text_of(document: Document) -> str | None:
    """The canonical text of a document of integers and plain texts."""
    return None if document is None else json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def document_of(text: str | None) -> Document:
    return None if text is None else dict(json.loads(text))


class StepFailed(Exception):
    """The host error `step_failed`; `name` is the step's."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


class WaitTimeout(Exception):
    """The host error `wait_timeout`."""


class Step:
    """What a body is given: the three step calls, and raw frames for bodies that misbehave."""

    def __init__(self, context: "FakeContext") -> None:
        self._context = context
        self._records = {record.name: record for record in context.start.steps}

    @property
    def now_ms(self) -> int:
        return self._context.now_ms

    async def do(self, name: str, effect: Callable[[], Awaitable[Document]], policy: Document = None) -> Document:
        if self._is_settled(name):
            return await self._replay(name)
        attempt = self._attempt(name)
        if policy is None:
            self.raw(["begin", 0, name, attempt, None])
        else:
            await self.ask("begin", name, attempt, text_of(policy))
        try:
            result = await effect()
        except Exception as error:
            outcome, text = await self.ask("failed", name, attempt, str(error))
        else:
            outcome, text = await self.ask("done", name, attempt, text_of(result))
        return self._result(name, outcome, text)

    async def sleep(self, name: str, seconds: int) -> None:
        if self._is_settled(name):
            await self._replay(name)
            return
        self._result(name, *await self.ask("sleep", name, seconds))

    async def wait(self, name: str, event_type: str, timeout_s: int) -> Document:
        if self._is_settled(name):
            return await self._replay(name)
        return self._result(name, *await self.ask("wait", name, event_type, timeout_s))

    def raw(self, frame: list[Any]) -> None:
        self._context.emit(json.dumps(frame))

    async def ask(self, verb: str, *members: Any) -> tuple[str, str | None]:
        """Send a frame that wants a reply and wait for it, for ever if need be."""
        reply_id = next(self._context.reply_ids)
        waiting: asyncio.Future[tuple[str, str | None]] = asyncio.get_running_loop().create_future()
        self._context.waiting[reply_id] = waiting
        self.raw([verb, reply_id, *members])
        return await waiting

    def die(self) -> None:
        """The process of this context dies."""
        self._context.die()

    def _is_settled(self, name: str) -> bool:
        return name in self._records and not self._records[name].state.startswith("pending:")

    def _attempt(self, name: str) -> int:
        return int(self._records[name].state.split(":")[2]) if name in self._records else 1

    async def _replay(self, name: str) -> Document:
        record = self._records[name]
        if record.state == "large":
            return self._result(name, *await self.ask("need", name))
        return self._result(name, "done" if record.state == "succeeded" else record.state, record.text)

    def _result(self, name: str, outcome: str, text: str | None) -> Document:
        """What the step gives, kept for the next call of the name in this context."""
        self._records[name] = StepRecord(name, "succeeded" if outcome == "done" else outcome, text)
        if outcome == "failed":
            raise StepFailed(name, text or "")
        if outcome == "timeout":
            raise WaitTimeout(name)
        return document_of(text)


Body = Callable[[Document, Step], Awaitable[Document]]


@dataclass
class FakeContext:
    """One execution of a body in a task."""

    start: ContextStart
    on_frame: Callable[[str], None]
    on_lost: OnLost
    pid: int
    process_started: str = "boot"
    now_ms: int = 0
    sent: list[str] = field(default_factory=list)
    waiting: dict[int, "asyncio.Future[tuple[str, str | None]]"] = field(default_factory=dict)
    reply_ids: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))
    is_stopped: bool = False
    stop_gate: asyncio.Event | None = None
    task: "asyncio.Task[None] | None" = None

    def emit(self, text: str) -> None:
        self.sent.append(text)
        if not self.is_stopped:
            self.on_frame(text)

    def send(self, text: str) -> None:
        verb, reply_id, outcome, document, now_ms = json.loads(text)
        assert verb == "reply"
        self.now_ms = now_ms
        self.waiting.pop(reply_id).set_result((outcome, document))

    async def stop(self) -> StopEvidence:
        if self.stop_gate is not None:
            await self.stop_gate.wait()
        self.cut()
        return StopEvidence(self.pid, self.process_started, "ack", None, STOPPED_AT)

    def cut(self) -> None:
        """No code of the body acts any more."""
        self.is_stopped = True
        if self.task is not None:
            self.task.cancel()

    def die(self, why: str = "watchdog", detail: str = "", *, is_own_fault: bool = True) -> None:
        """The runner's process dies."""
        self.cut()
        self.on_lost(
            StopEvidence(self.pid, self.process_started, "exit", -9, STOPPED_AT, is_own_fault), Loss(why, detail)
        )

    async def run(self, body: Body) -> None:
        step = Step(self)
        try:
            result = await body(document_of(self.start.params_text), step)
        except StepFailed as error:
            step.raw(["threw", str(error), error.name])
        except Exception as error:
            step.raw(["threw", str(error), None])
        else:
            step.raw(["return", text_of(result)])


class FakeRunners:
    """Runs bodies by class name; `started` keeps every context in order."""

    def __init__(self, **bodies: Body) -> None:
        self.bodies = bodies
        self.started: list[FakeContext] = []
        self.stop_gate: asyncio.Event | None = None
        self.failures: list[Exception] = []
        self.lost_gate = asyncio.Event()
        self._pids = itertools.count(1000)

    async def start(
        self,
        start: ContextStart,
        on_frame: Callable[[str], None],
        on_lost: OnLost,
    ) -> RunningContext:
        if self.failures:
            raise self.failures.pop(0)
        context = FakeContext(start, on_frame, on_lost, next(self._pids), stop_gate=self.stop_gate)
        context.now_ms = start.now_ms or 0
        self.started.append(context)
        context.task = asyncio.create_task(context.run(self.bodies[start.class_name]))
        return context

    async def end_lost(self, pid: int, process_started: str) -> StopEvidence:
        await self.lost_gate.wait()
        return StopEvidence(pid, process_started, "exit", -9, STOPPED_AT)

    @property
    def last(self) -> FakeContext:
        return self.started[-1]
