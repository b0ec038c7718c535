"""Hands batches to `queue` handlers and answers the settlements that come back (MW-18, MW-19).

Owns which deliveries are open; what is settled only the ledger knows. Knows no queue and no workerd.
"""

import asyncio
import base64
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from emulator.bindings.queue.ledger import Delivered, Ledger, Settlement, SettlementKind, Way, rest_after
from emulator.contexts import BindingCall, BindingCalls
from emulator.events import Batch, Handler, HandlerCall, Handlers, NotStarted, is_delay
from host.model.faults import FaultPoints, register
from host.model.time import Clock
from host.ports import BackendUnavailable
from host.sqlite import DatabaseError

_LOG = logging.getLogger("takohost.bindings.queue")
OPENED = register("queue.opened", "a delivery is kept, its handler not yet called")
PICKED = register("queue.picked", "the Version of a delivery is kept, none of its code has run")
HANDLED = register("queue.handled", "the handler of a delivery has ended, what that settles is not yet kept")


class SettlementError(StrEnum):
    """Names of the Errors that a settlement rejects with (MW-19)."""

    UNKNOWN_BATCH = "unknown_batch"
    UNKNOWN_MESSAGE = "unknown_message"
    ALREADY_SETTLED = "already_settled"
    BACKEND_UNAVAILABLE = "backend_unavailable"


class SettlementRefused(Exception):
    def __init__(self, name: SettlementError, message: str) -> None:
        super().__init__(message)
        self.name = name


@dataclass(slots=True)
class _Open:
    """A delivery whose handler runs; `version_uid` once the weights have picked one."""

    batch: Batch
    version_uid: str | None = None


class Deliveries(BindingCalls):
    """`BindingCalls` for calls of kind "batch"."""

    def __init__(
        self, handlers: Handlers, ledger: Ledger, clock: Clock, new_id: Callable[[], str], faults: FaultPoints
    ) -> None:
        self._handlers = handlers
        self._ledger = ledger
        self._clock = clock
        self._new_id = new_id
        self._faults = faults
        self._open: dict[str, _Open] = {}
        self._running: set[asyncio.Task[Delivered]] = set()

    async def deliver(self, worker_uid: str, batch: Batch) -> Delivered:
        """Give the batch to the Worker's `queue` handler; what became of each message, once that is durable.

        A caller that goes away ends no delivery. Raises `NotStarted`, `BackendUnavailable`, `DatabaseError`.
        """
        task = asyncio.create_task(self._deliver(worker_uid, batch))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Follow no delivery any more; the next host ends those that are open."""
        running = tuple(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _deliver(self, worker_uid: str, batch: Batch) -> Delivered:
        delivery_id = self._new_id()
        await self._ledger.open(delivery_id, worker_uid, batch, self._clock.now_ms())
        self._faults.reach(OPENED)
        opened = self._open[delivery_id] = _Open(batch)
        call = HandlerCall(worker_uid, Handler.QUEUE, _event_text(delivery_id, batch))
        try:
            end = await self._handlers.call_handler(call, partial(self._pick, delivery_id, opened))
        except (NotStarted, BackendUnavailable, DatabaseError):
            await self._ledger.forget(delivery_id)
            raise
        finally:
            del self._open[delivery_id]
        self._faults.reach(HANDLED)
        rest = rest_after(end.ending, batch.retry_delay_s)
        return await self._ledger.end(delivery_id, end, rest, self._clock.now_ms())

    async def _pick(self, delivery_id: str, opened: _Open, version_uid: str) -> None:
        """Should the host die, the delivery still says what it ran in."""
        await self._ledger.pick(delivery_id, version_uid)
        opened.version_uid = version_uid
        self._faults.reach(PICKED)

    async def answer(self, call: BindingCall) -> str:
        """`["ok"]` once the settlement is durable, or `["error", name, message]`."""
        try:
            await self._settle(call)
        except SettlementRefused as refused:
            return _refusal(refused.name, str(refused))
        except DatabaseError as error:
            _LOG.error("a settlement failed: %s", error)
            return _refusal(SettlementError.BACKEND_UNAVAILABLE, "the store did not answer")
        return '["ok"]'

    async def _settle(self, call: BindingCall) -> None:
        verb, delivery_id, message_id, delay_s = _parse(call.body)
        opened = self._open.get(delivery_id)
        if opened is None or opened.version_uid != call.version_uid:
            raise SettlementRefused(SettlementError.UNKNOWN_BATCH, "no handler has this batch")
        settlement = _settlement(verb, delay_s, opened.batch)
        ids = [message.id for message in opened.batch.messages]
        if verb.endswith("All"):
            await self._ledger.settle(delivery_id, ids, settlement, self._clock.now_ms())
            return
        if message_id is None or message_id not in ids:
            raise SettlementRefused(SettlementError.UNKNOWN_MESSAGE, "the batch has no message of this id")
        if not await self._ledger.settle(delivery_id, [message_id], settlement, self._clock.now_ms()):
            raise SettlementRefused(SettlementError.ALREADY_SETTLED, "the message is settled already")


def _settlement(verb: str, delay_s: int | None, batch: Batch) -> Settlement:
    if verb.startswith("acknowledge"):
        return Settlement(SettlementKind.ACKNOWLEDGED, None, Way.EXPLICIT)
    return Settlement(SettlementKind.RETRY, batch.retry_delay_s if delay_s is None else delay_s, Way.EXPLICIT)


def _parse(body: str) -> tuple[str, str, str | None, int | None]:
    """`[verb, delivery, message | null, delay | null]`; anything else was not made by our own shim."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    match found:
        case [("acknowledge" | "retry" | "acknowledgeAll" | "retryAll") as verb, str(delivery_id), message_id, delay_s]:
            if (message_id is None or isinstance(message_id, str)) and (delay_s is None or is_delay(delay_s)):
                return verb, delivery_id, message_id, delay_s
    raise SettlementRefused(SettlementError.UNKNOWN_BATCH, "not a settlement")


def _event_text(delivery_id: str, batch: Batch) -> str:
    """What the isolate makes the batch of (js/events.js)."""
    messages = [
        [message.id, message.timestamp_ms, base64.b64encode(message.body).decode(), message.attempts]
        for message in batch.messages
    ]
    return json.dumps([delivery_id, batch.batch_id, batch.queue, messages], ensure_ascii=True, separators=(",", ":"))


def _refusal(name: SettlementError, message: str) -> str:
    return json.dumps(["error", name.value, message])
