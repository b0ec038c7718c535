"""What triggers, queues and the runtime say to each other about `scheduled` and `queue` handlers, as plain values.

Owns no behaviour: it knows neither a workerd process nor a row, so all sides may import it.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, assert_never

LONGEST_TEXT = 256
MOST_MESSAGES = 100
LONGEST_DELAY_S = 43_200


class EventRefused(ValueError):
    """Values that no handler may be given; the message says which and why."""


class Handler(StrEnum):
    """The handlers that answer no request."""

    SCHEDULED = "scheduled"
    QUEUE = "queue"


class Ending(StrEnum):
    """How a handler came to its end. `lost`: its isolate or process ended first, so nobody knows how far it got."""

    RETURNED = "returned"
    THREW = "threw"
    LOST = "lost"


class Refusal(StrEnum):
    """Why a handler was not started."""

    UNKNOWN_WORKER = "unknown_worker"
    NO_DEPLOYMENT = "no_deployment"
    SECRETS_LOST = "secrets_lost"
    FILES_LOST = "files_lost"
    HANDLER_NOT_DECLARED = "handler_not_declared"


class NotStarted(Exception):
    """No code ran. `version_uid` is the Version that the weights gave, if they gave one; `declared` are its handlers,
    when it is these that it was refused for."""

    def __init__(self, refusal: Refusal, version_uid: str | None, declared: tuple[str, ...] = ()) -> None:
        version = "the Version" if version_uid is None else f"the Version {version_uid}"
        super().__init__(f"the handler was not started: {_why(refusal, version, declared)}")
        self.refusal = refusal
        self.version_uid = version_uid


def _why(refusal: Refusal, version: str, declared: tuple[str, ...]) -> str:
    match refusal:
        case Refusal.UNKNOWN_WORKER:
            return "there is no such Worker"
        case Refusal.NO_DEPLOYMENT:
            return "the Worker has no Deployment"
        case Refusal.SECRETS_LOST:
            return f"{version} has lost its secrets"
        case Refusal.FILES_LOST:
            return f"{version} has lost held files"
        case Refusal.HANDLER_NOT_DECLARED:
            return f"{version} does not declare it, only [{', '.join(declared)}]"
        case other:
            assert_never(other)


@dataclass(frozen=True, slots=True)
class HandlerCall:
    """A call of one handler of a Worker; `event_text` is the JSON text that the isolate makes the event of."""

    worker_uid: str
    handler: Handler
    event_text: str


@dataclass(frozen=True, slots=True)
class HandlerEnd:
    """What became of a call: `error` is what was thrown or how it was lost, without the value of any secret.

    `version_uid` is None only when the process ended before it told which Version it had picked.
    """

    ending: Ending
    version_uid: str | None
    error: str | None


OnPicked = Callable[[str], Awaitable[None]]
"""Is told the uid of the picked Version: none of its code runs before this has returned, nor when it raises."""


class Handlers(Protocol):
    """Who runs handlers; `emulator.runtime.gateway.Gateway` does."""

    async def call_handler(self, call: HandlerCall, on_picked: OnPicked) -> HandlerEnd:
        """Pick a Version by the weights in force, tell its uid, run its handler to its end (WD-03, MW-17).

        Raises `NotStarted`, `BackendUnavailable` when nobody can be asked, and what `on_picked` raises; then no code
        ran.
        """


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a batch (MW-18). Raises `EventRefused`."""

    id: str
    body: bytes
    timestamp_ms: int
    attempts: int

    def __post_init__(self) -> None:
        _check_text(self.id, "a message id")
        if self.timestamp_ms < 0:
            raise EventRefused("timestampMillis is an integer from 0")
        if self.attempts < 1:
            raise EventRefused("attempts is an integer from 1")


@dataclass(frozen=True, slots=True)
class Batch:
    """What a `queue` handler is given (MW-18); `retry_delay_s` is the consumer's own (MW-19). Raises `EventRefused`."""

    batch_id: str
    queue: str
    messages: tuple[Message, ...]
    retry_delay_s: int = 0

    def __post_init__(self) -> None:
        _check_text(self.batch_id, "batchId")
        _check_text(self.queue, "queue")
        if not 1 <= len(self.messages) <= MOST_MESSAGES:
            raise EventRefused(f"a batch has 1 to {MOST_MESSAGES} messages")
        if len({message.id for message in self.messages}) < len(self.messages):
            raise EventRefused("the ids of a batch's messages differ")
        if not is_delay(self.retry_delay_s):
            raise EventRefused(f"retryDelaySeconds is an integer from 0 to {LONGEST_DELAY_S}")


def is_delay(seconds: object) -> bool:
    """Whether a retry may be put off by that (MW-19)."""
    return isinstance(seconds, int) and not isinstance(seconds, bool) and 0 <= seconds <= LONGEST_DELAY_S


def _check_text(text: str, what: str) -> None:
    if not 1 <= len(text) <= LONGEST_TEXT:
        raise EventRefused(f"{what} has 1 to {LONGEST_TEXT} characters")
