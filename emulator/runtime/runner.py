"""One runner process and the contexts in it: starting, routing frames, stopping with evidence (DW-39).

Knows neither when a runner is used nor what a frame means.
"""

import asyncio
import json
import logging
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal, Protocol

from emulator.contexts import BindingCalls, ContextStart, Loss, OnLost, StopEvidence
from emulator.runtime.config import Config
from emulator.runtime.context_texts import CODE_KIND, binding_call, start_parts, version_text
from emulator.runtime.kernels import CONTROL_SOCKET
from emulator.runtime.log_tags import LogTags
from emulator.runtime.platform import lower_priority
from emulator.runtime.process import Launcher, Workerd
from host.model.time import Clock, timestamp

_LOG = logging.getLogger(__name__)
_UNAVAILABLE = '["error","backend_unavailable","The context of this call has ended."]'
_FAILED = '["error","backend_unavailable","The host could not answer."]'
ACK_TIMEOUT_S = 0.1
SHARED_ACK_TIMEOUT_S = 5.0
"""The same where others share the process: if one of them spins the watchdog ends it long before."""


@dataclass(frozen=True, slots=True)
class StopRules:
    """How contexts are stopped: by the kernel's ack within a bound, else by the end of the process; or always so."""

    strict: bool = False
    ack_timeout_s: float = ACK_TIMEOUT_S


class Context:
    """A started context, see `emulator.contexts.RunningContext`. `signs` counts its frames and binding calls."""

    def __init__(
        self,
        runner: "Runner",
        start: ContextStart,
        on_frame: Callable[[str], None],
        on_lost: OnLost,
    ) -> None:
        self.start = start
        self.id = start.context_id
        self.is_live = True
        self.signs = 0
        self._runner = runner
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._stopping: asyncio.Task[StopEvidence] | None = None

    @property
    def pid(self) -> int:
        return self._runner.pid

    @property
    def process_started(self) -> str:
        return self._runner.process_started

    def send(self, text: str) -> None:
        if self.is_live:
            self._runner.send(f"{self.id} {text}")

    def receive(self, text: str) -> None:
        """Deliver a frame of the isolate while the context lives."""
        self.signs += 1
        if self.is_live:
            self._on_frame(text)

    async def stop(self) -> StopEvidence:
        self.is_live = False
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._runner.stop(self))
        return await asyncio.shield(self._stopping)

    async def cut(self, why: str) -> None:
        """Stop the code against its owner's expectation and tell it so, like any other loss."""
        if self.is_live:
            self._on_lost(await self.stop(), Loss(why))

    def lose(self, evidence: StopEvidence, loss: Loss) -> None:
        """The process has ended: tell the owner unless it is stopping the context anyway."""
        was_live, self.is_live = self.is_live, False
        if was_live:
            self._stopping = asyncio.create_task(_value(evidence))
            self._on_lost(evidence, loss)


class RunnerOwner(Protocol):
    """Who decides what becomes of a runner."""

    def runner_has_room(self, runner: "Runner", stopped: Context) -> None:
        """A context was stopped and the process lives."""

    def runner_has_ended(self, runner: "Runner", cut: Sequence[Context]) -> None:
        """Its process is gone; told once, before the owners of the contexts that it took along."""


class Runner:
    """A workerd process for contexts: for one at a time, or shared by at most `share` of them.

    `turns` grows with every message of the process: its event loop has turned.
    """

    def __init__(
        self, rules: StopRules, clock: Clock, calls: BindingCalls, owner: RunnerOwner, tags: LogTags, share: int
    ) -> None:
        self.share = share
        self.started_count = 0
        self.turns = 0
        self.is_demoted = False
        self._rules = rules
        self._clock = clock
        self._calls = calls
        self._owner = owner
        self._tags = tags
        self._contexts: dict[str, Context] = {}
        self._acks: dict[str, asyncio.Future[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._why: Loss | None = None
        self._is_unreadable = False
        self._workerd: Workerd | None = None

    @classmethod
    async def spawn(
        cls,
        launcher: Launcher,
        config: Config,
        rules: StopRules,
        clock: Clock,
        calls: BindingCalls,
        owner: RunnerOwner,
        tags: LogTags,
        share: int = 1,
    ) -> "Runner":
        """Start a process and wait until its kernel answers. Raises `WorkerdFailed`."""
        runner = cls(rules, clock, calls, owner, tags, share)
        workerd = await launcher.start(config, CONTROL_SOCKET, runner._receive, runner._channel_closed)
        runner._workerd = workerd
        workerd.child.exited.add_done_callback(runner._ended)
        return runner

    @property
    def workerd(self) -> Workerd:
        assert self._workerd is not None
        return self._workerd

    @property
    def pid(self) -> int:
        return self.workerd.child.pid

    @property
    def process_started(self) -> str:
        return self.workerd.child.started

    @property
    def has_ended(self) -> bool:
        return self.workerd.child.exited.done()

    @property
    def is_shared(self) -> bool:
        return self.share > 1

    @property
    def contexts(self) -> Sequence[Context]:
        """Those that are not proven stopped."""
        return tuple(self._contexts.values())

    @property
    def count(self) -> int:
        return len(self._contexts)

    def send(self, text: str) -> None:
        self.workerd.channel.send(text)

    def start(
        self,
        start: ContextStart,
        on_frame: Callable[[str], None],
        on_lost: OnLost,
    ) -> Context:
        """Start a context; a failure to is told by `on_lost`."""
        context = Context(self, start, on_frame, on_lost)
        self._contexts[context.id] = context
        self.started_count += 1
        head = f"!start {context.id} {version_text(start.version)}\n"
        self.workerd.channel.send_parts(chain((head,), start_parts(start, self._tags)))
        return context

    def prepare(self, version: str) -> None:
        """Load an isolate for the next context ahead, likely one of `version`, a text of `version_text`."""
        self.send(f"!prepare {version}")

    async def stop(self, context: Context) -> StopEvidence:
        """Stop a context that takes no frames any more: by ack, or with the whole process."""
        if self.has_ended or self._rules.strict or not await self._acknowledged(context):
            self.kill("another context of the same process had to be killed")
            status = await self.workerd.end()
            evidence = self._evidence("exit", status)
        else:
            evidence = self._evidence("ack", None)
        self._contexts.pop(context.id, None)
        if not self.has_ended:
            self._owner.runner_has_room(self, context)
        return evidence

    def kill(self, why: str, detail: str = "") -> None:
        """Kill the process; the first `why` is told to the owners of its contexts. What app code may have written into
        it is in `detail`."""
        self._why = self._why or Loss(why, detail)
        self.workerd.child.kill()

    def demote(self) -> None:
        """Let everybody else run first; it is not for another context afterwards."""
        self.is_demoted = True
        lower_priority(self.pid)

    async def end(self) -> None:
        """Kill the process and wait for its end."""
        await self.workerd.end()
        for task in self._tasks:
            task.cancel()

    async def _acknowledged(self, context: Context) -> bool:
        ack = self._acks[context.id] = asyncio.get_running_loop().create_future()
        self.send(f"!stop {context.id}")
        either = (ack, self.workerd.child.exited)
        timeout_s = SHARED_ACK_TIMEOUT_S if self.is_shared else self._rules.ack_timeout_s
        done, _ = await asyncio.wait(either, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        del self._acks[context.id]
        return ack in done

    def _evidence(self, kind: Literal["ack", "exit"], status: int | None, *, is_own_fault: bool = True) -> StopEvidence:
        at = timestamp(self._clock.now_ms())
        return StopEvidence(self.pid, self.process_started, kind, status, at, is_own_fault)

    def _channel_closed(self) -> None:
        if self._workerd is None or self.has_ended:
            return
        if self.workerd.channel.fault is None:
            self.workerd.child.kill()  # it is dying, and nothing could be asked of it any more
        else:
            self.kill("the runner broke the channel", self.workerd.channel.fault)

    def _ended(self, exited: asyncio.Future[int]) -> None:
        self.workerd.channel.abort()
        status = exited.result()
        why = self._why or Loss(_end_in_words(status))
        contexts, self._contexts = self.contexts, {}
        is_own_fault = len(contexts) <= 1 and not self._is_unreadable
        evidence = self._evidence("exit", status, is_own_fault=is_own_fault)
        self._owner.runner_has_ended(self, contexts)
        for context in contexts:
            context.lose(evidence, replace(why, words=f"{why.words} (exit status {status})"))

    def _receive(self, text: str) -> None:
        self.turns += 1
        head, _, rest = text.partition(" ")
        if not head.startswith("!"):
            context = self._contexts.get(head)
            if context is not None:
                context.receive(rest)
            return
        self._receive_control(head, rest)

    def _receive_control(self, verb: str, rest: str) -> None:
        match verb:
            case "!pong":
                pass
            case "!stopped":
                ack = self._acks.get(rest)
                if ack is not None and not ack.done():
                    ack.set_result(None)
            case "!call":
                number, _, call = rest.partition(" ")
                task = asyncio.create_task(self._answer(number, json.loads(call)))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            case "!closed" | "!failed":
                context_id, _, detail = rest.partition(" ")
                if context_id in self._contexts and self._contexts[context_id].is_live:
                    self.kill("the isolate ended", detail or "its socket closed")
            case "!unreadable":
                _LOG.error("a context cannot start: %s", rest.partition(" ")[2])
                self._is_unreadable = True
                self.kill(rest.partition(" ")[2])
            case _:
                self.kill("the kernel sent an unknown verb")

    async def _answer(self, number: str, call: dict[str, dict[str, str]]) -> None:
        props = call["props"]
        context = self._contexts.get(props.get("contextId", ""))
        reply = _UNAVAILABLE
        is_kernels_own = props["kind"] == CODE_KIND
        if is_kernels_own or (context is not None and context.is_live):
            if context is not None:
                context.signs += 1
            try:
                reply = await self._calls.answer(binding_call(props, str(call["body"])))
            except Exception:
                _LOG.exception("a call of binding %s failed", props["binding"])
                reply = _FAILED
        self.send(f"!reply {number} {reply}")


def _end_in_words(status: int) -> str:
    """The end of a process that nobody here killed."""
    if status == -signal.SIGKILL:
        return "the runner's process was killed, by the system or from outside"
    return "the runner's process ended, as it does when memory runs out"


async def _value(evidence: StopEvidence) -> StopEvidence:
    return evidence
