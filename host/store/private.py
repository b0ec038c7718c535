"""Statements on private inputs: sealed values that come and go, comparison material that stays (HA-64).

Only bytes pass through here; nothing in this module can open or make them.
"""

from dataclasses import dataclass
from typing import cast

from host.sqlite import Transaction


@dataclass(frozen=True, slots=True)
class KeptValue:
    """The sealed private inputs of an Operation; `sealed` is `None` once they have expired and gone."""

    sealed: bytes | None
    expires_at_ms: int


def keep_value(tx: Transaction, operation_id: str, kept: KeptValue) -> None:
    """Keep, or put in place of what was kept."""
    tx.execute(
        "INSERT OR REPLACE INTO private_values (operation_id, sealed, expires_at_ms) VALUES (?, ?, ?)",
        (operation_id, kept.sealed, kept.expires_at_ms),
    )


def find_value(tx: Transaction, operation_id: str) -> KeptValue | None:
    rows = tx.execute("SELECT sealed, expires_at_ms FROM private_values WHERE operation_id = ?", (operation_id,))
    return KeptValue(cast("bytes | None", rows[0][0]), cast(int, rows[0][1])) if rows else None


def drop_value(tx: Transaction, operation_id: str) -> None:
    tx.execute("DELETE FROM private_values WHERE operation_id = ?", (operation_id,))


def drop_expired_values(tx: Transaction, at_ms: int) -> int:
    """Take the bytes away and leave the note that they expired; how many there were."""
    tx.execute("UPDATE private_values SET sealed = NULL WHERE sealed IS NOT NULL AND expires_at_ms <= ?", (at_ms,))
    return tx.changes


def keep_comparison(tx: Transaction, subject: str, code: bytes) -> None:
    """`subject` is an Operation id or a Resource's uid."""
    tx.execute("INSERT OR REPLACE INTO private_comparisons (subject, code) VALUES (?, ?)", (subject, code))


def find_comparison(tx: Transaction, subject: str) -> bytes | None:
    rows = tx.execute("SELECT code FROM private_comparisons WHERE subject = ?", (subject,))
    return cast(bytes, rows[0][0]) if rows else None


def drop_comparison(tx: Transaction, subject: str) -> None:
    tx.execute("DELETE FROM private_comparisons WHERE subject = ?", (subject,))
