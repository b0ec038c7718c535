"""`scheduled` and `queue` handlers fired by hand, and what became of them as JSON. No Form triggers them yet."""

import json
from typing import Protocol

from emulator.bindings.queue import Delivered, Deliveries, RowLedger, Settlement
from emulator.events import Batch, Ending, Handler, HandlerCall, HandlerEnd, Handlers
from emulator.management.parts import Triggers
from host.model.json import JsonObject
from host.model.time import Clock, timestamp


class FailureLog(Protocol):
    """Where a handler that could not tell its end itself is told of; `emulator.runtime.app_log.AppLog` is one."""

    def fail(self, worker_uid: str, version_uid: str | None, message: str) -> None: ...


class HandTriggers(Triggers):
    """What a handler threw is in the log already; what the host alone knows is added here (MW-17)."""

    def __init__(
        self, handlers: Handlers, deliveries: Deliveries, ledger: RowLedger, clock: Clock, log: FailureLog
    ) -> None:
        self._handlers = handlers
        self._deliveries = deliveries
        self._ledger = ledger
        self._clock = clock
        self._log = log

    def now_ms(self) -> int:
        return self._clock.now_ms()

    async def scheduled(self, worker_uid: str, cron: str, scheduled_ms: int | None) -> JsonObject:
        at_ms = self._clock.now_ms() if scheduled_ms is None else scheduled_ms
        call = HandlerCall(worker_uid, Handler.SCHEDULED, json.dumps([at_ms, cron]))
        end = await self._handlers.call_handler(call, _ignore)
        self._note(worker_uid, Handler.SCHEDULED, end)
        return {"workerUid": worker_uid, "cron": cron, "scheduledTime": at_ms, **_ended(end)}

    async def queue(self, worker_uid: str, batch: Batch) -> JsonObject:
        delivered = await self._deliveries.deliver(worker_uid, batch)
        if delivered.end is not None:
            self._note(worker_uid, Handler.QUEUE, delivered.end)
        return _delivered(delivered)

    async def deliveries(self, worker_uid: str) -> list[JsonObject]:
        return [_delivered(each) for each in await self._ledger.of_worker(worker_uid)]

    def _note(self, worker_uid: str, handler: Handler, end: HandlerEnd) -> None:
        if end.ending is Ending.LOST:
            self._log.fail(worker_uid, end.version_uid, f"{handler.value} was cut off: {end.error}")


async def _ignore(version_uid: str) -> None:
    """Of a `scheduled` call nothing is kept that would outlive the host."""


def _ended(end: HandlerEnd | None) -> JsonObject:
    if end is None:
        return {"versionUid": None, "outcome": "running", "error": None}
    outcome = "succeeded" if end.ending is Ending.RETURNED else "failed"
    return {"versionUid": end.version_uid, "outcome": outcome, "error": end.error}


def _delivered(delivered: Delivered) -> JsonObject:
    ended_at_ms = delivered.ended_at_ms
    return {
        "deliveryId": delivered.delivery_id,
        "workerUid": delivered.worker_uid,
        "batchId": delivered.batch_id,
        "queue": delivered.queue,
        "openedAt": timestamp(delivered.opened_at_ms),
        "endedAt": None if ended_at_ms is None else timestamp(ended_at_ms),
        **_ended(delivered.end),
        "versionUid": delivered.version_uid,
        "messages": [_message(message_id, settlement) for message_id, settlement in delivered.messages],
    }


def _message(message_id: str, settlement: Settlement | None) -> JsonObject:
    if settlement is None:
        return {"id": message_id, "settlement": None, "delaySeconds": None, "way": None}
    return {
        "id": message_id,
        "settlement": settlement.kind.value,
        "delaySeconds": settlement.delay_s,
        "way": settlement.way.value,
    }
