"""Statements on idempotency keys and on the host's own secrets."""

from dataclasses import dataclass
from typing import cast

from host.sqlite import Transaction


@dataclass(frozen=True, slots=True)
class KeptKey:
    """What a key was first used for."""

    fingerprint: str
    operation_id: str


def find_key(tx: Transaction, owner: str, key: str) -> KeptKey | None:
    rows = tx.execute(
        "SELECT fingerprint, operation_id FROM idempotency_keys WHERE owner = ? AND key = ?", (owner, key)
    )
    return KeptKey(cast(str, rows[0][0]), cast(str, rows[0][1])) if rows else None


def insert_key(tx: Transaction, owner: str, key: str, kept: KeptKey) -> None:
    tx.execute(
        "INSERT INTO idempotency_keys (owner, key, fingerprint, operation_id) VALUES (?, ?, ?, ?)",
        (owner, key, kept.fingerprint, kept.operation_id),
    )


def keep_secret(tx: Transaction, name: str, fresh: bytes) -> bytes:
    """The host's secret of that name; `fresh` becomes it when there is none."""
    tx.execute("INSERT INTO host_secrets (name, value) VALUES (?, ?) ON CONFLICT DO NOTHING", (name, fresh))
    return cast(bytes, tx.execute("SELECT value FROM host_secrets WHERE name = ?", (name,))[0][0])
