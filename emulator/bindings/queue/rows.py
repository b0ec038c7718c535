"""The ledger as rows beside the runs: what deliveries by hand leave behind. Calls nobody.

Every write carries its guard in its own statement: a message is settled once, and only while its delivery is open.
"""

from collections.abc import Sequence

from emulator.bindings.queue.ledger import Delivered, Ledger, Settlement, SettlementKind, Way, rest_after
from emulator.d1 import Database, Statement
from emulator.events import Batch, Ending, HandlerEnd
from host.sqlite.transaction import Row

KEPT_BATCHES = 100
"""Deliveries that have ended and are still shown."""

SCHEMA = """
CREATE TABLE queue_batches (
    ord INTEGER PRIMARY KEY,
    delivery_id TEXT NOT NULL UNIQUE,
    worker_uid TEXT NOT NULL,
    version_uid TEXT,
    batch_id TEXT NOT NULL,
    queue TEXT NOT NULL,
    retry_delay_seconds INTEGER NOT NULL,
    opened_at_ms INTEGER NOT NULL,
    ended_at_ms INTEGER,
    ending TEXT CHECK (ending IN ('returned', 'threw', 'lost')),
    error TEXT,
    CHECK ((ended_at_ms IS NULL) = (ending IS NULL))
) STRICT;
CREATE INDEX queue_batches_of_worker ON queue_batches (worker_uid);
CREATE TABLE queue_messages (
    delivery_id TEXT NOT NULL,
    ord INTEGER NOT NULL,
    message_id TEXT NOT NULL,
    settlement TEXT CHECK (settlement IN ('acknowledged', 'retry')),
    delay_seconds INTEGER CHECK ((delay_seconds IS NOT NULL) = (settlement IS 'retry')),
    way TEXT CHECK (way IN ('explicit', 'return', 'throw', 'lost')),
    settled_at_ms INTEGER,
    PRIMARY KEY (delivery_id, ord),
    UNIQUE (delivery_id, message_id)
) STRICT, WITHOUT ROWID;
"""

_OPEN = "EXISTS (SELECT 1 FROM queue_batches WHERE delivery_id = ?1 AND ended_at_ms IS NULL)"
_SETTLE = f"""
UPDATE queue_messages SET settlement = ?2, delay_seconds = ?3, way = ?4, settled_at_ms = ?5
WHERE delivery_id = ?1 AND settlement IS NULL AND {_OPEN}
"""
_BATCH = """
SELECT delivery_id, worker_uid, version_uid, batch_id, queue, opened_at_ms, ended_at_ms, ending, error
FROM queue_batches
"""
_MESSAGES = """
SELECT delivery_id, message_id, settlement, delay_seconds, way FROM queue_messages WHERE delivery_id IN
"""
_PRUNE = f"""
DELETE FROM queue_batches WHERE ended_at_ms IS NOT NULL AND ord NOT IN
    (SELECT ord FROM queue_batches WHERE ended_at_ms IS NOT NULL ORDER BY ord DESC LIMIT {KEPT_BATCHES - 1})
"""
_PRUNE_MESSAGES = "DELETE FROM queue_messages WHERE delivery_id NOT IN (SELECT delivery_id FROM queue_batches)"


class RowLedger(Ledger):
    """Deliveries of one host."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def open(self, delivery_id: str, worker_uid: str, batch: Batch, now_ms: int) -> None:
        """The oldest of those that have ended make room."""
        columns = "delivery_id, worker_uid, batch_id, queue, retry_delay_seconds, opened_at_ms"
        values = (delivery_id, worker_uid, batch.batch_id, batch.queue, batch.retry_delay_s, now_ms)
        await self._database.batch(
            [
                Statement(_PRUNE),
                Statement(_PRUNE_MESSAGES),
                Statement(f"INSERT INTO queue_batches ({columns}) VALUES (?, ?, ?, ?, ?, ?)", values),
                *(
                    Statement(
                        "INSERT INTO queue_messages (delivery_id, ord, message_id) VALUES (?, ?, ?)",
                        (delivery_id, number, message.id),
                    )
                    for number, message in enumerate(batch.messages)
                ),
            ]
        )

    async def pick(self, delivery_id: str, version_uid: str) -> None:
        await self._database.batch(
            [
                Statement(
                    "UPDATE queue_batches SET version_uid = ?2 WHERE delivery_id = ?1 AND ended_at_ms IS NULL",
                    (delivery_id, version_uid),
                )
            ]
        )

    async def settle(
        self, delivery_id: str, message_ids: Sequence[str], settlement: Settlement, now_ms: int
    ) -> Sequence[str]:
        values = _values(delivery_id, settlement, now_ms)
        one = f"{_SETTLE} AND message_id = ?6"
        results = await self._database.batch([Statement(one, (*values, each)) for each in message_ids])
        return [each for each, result in zip(message_ids, results, strict=True) if result.is_applied]

    async def end(self, delivery_id: str, end: HandlerEnd, rest: Settlement, now_ms: int) -> Delivered:
        await self._database.batch(
            [
                Statement(_SETTLE, _values(delivery_id, rest, now_ms)),
                Statement(
                    "UPDATE queue_batches SET ended_at_ms = ?2, ending = ?3, error = ?4,"
                    " version_uid = coalesce(?5, version_uid) WHERE delivery_id = ?1 AND ended_at_ms IS NULL",
                    (delivery_id, now_ms, end.ending, end.error, end.version_uid),
                ),
            ]
        )
        [delivered] = await self._read("WHERE delivery_id = ?", delivery_id)
        return delivered

    async def forget(self, delivery_id: str) -> None:
        await self._database.batch(
            [Statement(f"DELETE FROM {table} WHERE delivery_id = ?", (delivery_id,)) for table in _TABLES]
        )

    async def end_lost(self, now_ms: int) -> None:
        """End what an earlier host left open: its processes are gone, so the rest is to be retried."""
        lost = HandlerEnd(Ending.LOST, None, "the host that ran it ended")
        [found] = await self._database.query(
            [Statement("SELECT delivery_id, retry_delay_seconds FROM queue_batches WHERE ended_at_ms IS NULL")]
        )
        for delivery_id, delay_s in found.rows:
            assert isinstance(delay_s, int)
            await self.end(str(delivery_id), lost, rest_after(Ending.LOST, delay_s), now_ms)

    async def of_worker(self, worker_uid: str) -> Sequence[Delivered]:
        """What is kept of a Worker's deliveries, the oldest first."""
        return await self._read("WHERE worker_uid = ? ORDER BY ord", worker_uid)

    async def _read(self, where: str, value: str) -> Sequence[Delivered]:
        chosen = f"(SELECT delivery_id FROM queue_batches {where})"
        batches, messages = await self._database.query(
            [Statement(_BATCH + where, (value,)), Statement(f"{_MESSAGES} {chosen} ORDER BY ord", (value,))]
        )
        of: dict[str, list[tuple[str, Settlement | None]]] = {}
        for delivery_id, message_id, *settlement in messages.rows:
            of.setdefault(str(delivery_id), []).append((str(message_id), _settlement(settlement)))
        return [_delivered(row, tuple(of.get(str(row[0]), ()))) for row in batches.rows]


_TABLES = ("queue_messages", "queue_batches")


def _values(delivery_id: str, settlement: Settlement, now_ms: int) -> tuple[str | int | None, ...]:
    return (delivery_id, settlement.kind.value, settlement.delay_s, settlement.way.value, now_ms)


def _settlement(columns: Sequence[object]) -> Settlement | None:
    kind, delay_s, way = columns
    if kind is None:
        return None
    assert delay_s is None or isinstance(delay_s, int)
    return Settlement(SettlementKind(str(kind)), delay_s, Way(str(way)))


def _delivered(row: Row, messages: tuple[tuple[str, Settlement | None], ...]) -> Delivered:
    delivery_id, worker_uid, version_uid, batch_id, queue, opened_at_ms, ended_at_ms, ending, error = row
    assert isinstance(opened_at_ms, int)
    assert ended_at_ms is None or isinstance(ended_at_ms, int)
    return Delivered(
        delivery_id=str(delivery_id),
        worker_uid=str(worker_uid),
        version_uid=_optional(version_uid),
        batch_id=str(batch_id),
        queue=str(queue),
        opened_at_ms=opened_at_ms,
        ended_at_ms=ended_at_ms,
        end=None if ending is None else HandlerEnd(Ending(str(ending)), _optional(version_uid), _optional(error)),
        messages=messages,
    )


def _optional(value: object) -> str | None:
    return None if value is None else str(value)
