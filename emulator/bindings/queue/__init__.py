"""Delivery of message batches to `queue` handlers, and the settlement of their messages (MW-18, MW-19)."""

from emulator.bindings.queue.deliveries import Deliveries
from emulator.bindings.queue.ledger import Delivered, Ledger, Settlement, SettlementKind, Way
from emulator.bindings.queue.rows import KEPT_BATCHES, SCHEMA, RowLedger

__all__ = [
    "KEPT_BATCHES",
    "SCHEMA",
    "Delivered",
    "Deliveries",
    "Ledger",
    "RowLedger",
    "Settlement",
    "SettlementKind",
    "Way",
]
