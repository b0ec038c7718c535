"""Statements that forget: Operations with their keys, and the markers of deleted Resources (HA-54). Decides no time."""

from typing import cast

from host.sqlite import Transaction


def forget_operations(tx: Transaction, at_ms: int, limit: int) -> int:
    """Drop at most `limit` terminal Operations whose retention has ended, each together with its key; how many."""
    rows = tx.execute(
        "SELECT id FROM operations INDEXED BY operations_by_retention"
        " WHERE status IN ('succeeded', 'failed') AND retain_until_ms < ? ORDER BY retain_until_ms LIMIT ?",
        (at_ms, limit),
    )
    for (identifier,) in rows:
        tx.execute("DELETE FROM idempotency_keys WHERE operation_id = ?", (identifier,))
        tx.execute("DELETE FROM private_values WHERE operation_id = ?", (identifier,))
        tx.execute("DELETE FROM private_comparisons WHERE subject = ?", (identifier,))
        tx.execute("DELETE FROM operations WHERE id = ?", (identifier,))
    return len(rows)


def forget_markers(tx: Transaction, deleted_before_ms: int, limit: int) -> int:
    """Drop at most `limit` markers older than that and named by no Operation any more; how many."""
    rows = tx.execute(
        "SELECT d.uid FROM deleted_resources d INDEXED BY deleted_by_time WHERE d.deleted_at_ms < ?"
        " AND NOT EXISTS (SELECT 1 FROM operations o WHERE o.resource_uid = d.uid) LIMIT ?",
        (deleted_before_ms, limit),
    )
    for (uid,) in rows:
        tx.execute("DELETE FROM deleted_resources WHERE uid = ?", (cast(str, uid),))
    return len(rows)
