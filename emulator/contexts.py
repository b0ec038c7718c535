"""What the workflow engine and the runtime say to each other about execution contexts, as plain values and protocols.

Owns no behaviour: it knows neither a history nor a workerd process, so both sides may import it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from host.ports import BindingRecord, VersionRecord

__all__ = [
    "BindingCall",
    "BindingCalls",
    "BindingRecord",
    "ContextStart",
    "Loss",
    "Notice",
    "OnLost",
    "Runners",
    "RunnersBusy",
    "RunningContext",
    "StepRecord",
    "StopEvidence",
    "VersionRecord",
]


@dataclass(frozen=True, slots=True)
class StepRecord:
    """A step of the history as the isolate is told of it (DW-32).

    `state` is `succeeded`, `failed`, `timeout`, `large` (a result asked for by a `need` frame) or
    `pending:<kind>:<attempt>:<settings text>`; `text` is the result document or the failure's message.
    """

    name: str
    state: str
    text: str | None


@dataclass(frozen=True, slots=True)
class ContextStart:
    """All that one execution context is started with (DW-21 to DW-24).

    `now_ms` is a number only on a controlled clock: the isolate then gets a replaced `Date`.
    """

    context_id: str
    version: VersionRecord
    class_name: str
    instance_id: str
    params_text: str | None
    steps: tuple[StepRecord, ...]
    now_ms: int | None


@dataclass(frozen=True, slots=True)
class StopEvidence:
    """Why the code of a context is known to act no more (DW-39).

    `ack`: the kernel aborted the isolate and acknowledged; `exit`: the process was reaped, with `exit_status` as
    `subprocess` counts it (negative signal number); `lost_host`: an earlier host's process, proven gone by pid and
    start time. `at` is an RFC 3339 instant. `is_own_fault` is False for the end of a process that held other contexts
    too, as whose code ended it is not known, or that could not read its code.
    """

    pid: int
    process_started: str
    kind: Literal["ack", "exit", "lost_host"]
    exit_status: int | None
    at: str
    is_own_fault: bool = True


@dataclass(frozen=True, slots=True)
class Loss:
    """Why a context was lost. `words` are the host's own and may stand in every log; `detail` may be text of app code,
    and with it the value of a secret."""

    words: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.words}: {self.detail}" if self.detail else self.words


@dataclass(frozen=True, slots=True)
class Notice:
    """What the host did to an instance by itself, for people: it lost a context, or ended the instance as errored.

    `sentence` has no word of app code in it. Version and context are None when nothing executed.
    """

    worker_uid: str
    version_uid: str | None
    instance_id: str
    context_id: str | None
    sentence: str


@dataclass(frozen=True, slots=True)
class BindingCall:
    """One call of app code on a binding; every field but `body` was fixed by the host when the stub was made (DW-42).

    `context_id` is None for a call from an HTTP handler. `body` is untrusted JSON text.
    """

    version_uid: str
    binding: str
    kind: str
    target_uid: str
    context_id: str | None
    body: str


class BindingCalls(Protocol):
    """Who answers calls of app code; authorises by the fields of the call alone."""

    async def answer(self, call: BindingCall) -> str:
        """The reply text, always JSON; an exception becomes `backend_unavailable` in the isolate (DW-18)."""


OnLost: TypeAlias = Callable[[StopEvidence, Loss], None]


class RunnersBusy(Exception):
    """No context could be started now: the bound on contexts is reached or no process came up."""


class RunningContext(Protocol):
    """A started context and the process that holds it."""

    @property
    def pid(self) -> int:
        """Process id of the runner."""

    @property
    def process_started(self) -> str:
        """Start time of that process: with the pid it names one process for ever."""

    def send(self, text: str) -> None:
        """Send a frame to the isolate; after the context ended this does nothing."""

    async def stop(self) -> StopEvidence:
        """Stop the code and prove it. Idempotent. Once it returned no frame is delivered any more (DW-39)."""


class Runners(Protocol):
    """Where contexts run."""

    async def start(
        self,
        start: ContextStart,
        on_frame: Callable[[str], None],
        on_lost: OnLost,
    ) -> RunningContext:
        """Start a context and deliver its frames to `on_frame`, in order.

        `on_lost(evidence, loss)` is called at most once, when the runner died or the watchdog killed it; never after
        `stop()`, and no frame follows it. Raises `RunnersBusy`.
        """

    async def end_lost(self, pid: int, process_started: str) -> StopEvidence:
        """Prove that a process of an earlier host is gone, killing it if need be (DW-39)."""
