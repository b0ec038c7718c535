"""What is kept of deliveries, and the port through which it is kept: a Queue Form fills it with its own store.

Owns values only: it knows neither rows nor isolates.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from emulator.events import Batch, Ending, HandlerEnd


class SettlementKind(StrEnum):
    """What becomes of a message."""

    ACKNOWLEDGED = "acknowledged"
    RETRY = "retry"


class Way(StrEnum):
    """How it came to that: by a call of the handler, or by the handler's end (MW-19)."""

    EXPLICIT = "explicit"
    RETURN = "return"
    THROW = "throw"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Settlement:
    """`delay_s` is there for a retry only."""

    kind: SettlementKind
    delay_s: int | None
    way: Way


@dataclass(frozen=True, slots=True)
class Delivered:
    """One delivery as it is kept, with each message's id and settlement, in order.

    `version_uid` is None until the weights have picked a Version, `end` and `ended_at_ms` while the handler runs, a
    settlement while the message is unsettled.
    """

    delivery_id: str
    worker_uid: str
    version_uid: str | None
    batch_id: str
    queue: str
    opened_at_ms: int
    ended_at_ms: int | None
    end: HandlerEnd | None
    messages: tuple[tuple[str, Settlement | None], ...]


class Ledger(Protocol):
    """Durable when a call returns. Raises `host.sqlite.DatabaseError`."""

    async def open(self, delivery_id: str, worker_uid: str, batch: Batch, now_ms: int) -> None:
        """Keep a delivery before its handler is called."""

    async def pick(self, delivery_id: str, version_uid: str) -> None:
        """Keep the Version of an open delivery, before any of its code runs."""

    async def settle(
        self, delivery_id: str, message_ids: Sequence[str], settlement: Settlement, now_ms: int
    ) -> Sequence[str]:
        """Settle those of the messages that are unsettled, while the delivery is open; gives the ids of those."""

    async def end(self, delivery_id: str, end: HandlerEnd, rest: Settlement, now_ms: int) -> Delivered:
        """Close the delivery and settle the rest of its messages so, in one step; a Version that was kept stays."""

    async def forget(self, delivery_id: str) -> None:
        """Take back a delivery whose handler was not started."""


def rest_after(end: Ending, retry_delay_s: int) -> Settlement:
    """What becomes of messages that the handler left unsettled (MW-19)."""
    match end:
        case Ending.RETURNED:
            return Settlement(SettlementKind.ACKNOWLEDGED, None, Way.RETURN)
        case Ending.THREW:
            return Settlement(SettlementKind.RETRY, retry_delay_s, Way.THROW)
        case Ending.LOST:
            return Settlement(SettlementKind.RETRY, retry_delay_s, Way.LOST)
