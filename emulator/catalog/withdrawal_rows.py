"""Versions that left the weights: until when what they still run may go on, and the proof that it stopped (WD-04)."""

import json
from dataclasses import dataclass

from emulator.d1 import Statement
from host.model.json import JsonObject
from host.sqlite.transaction import Row

GRACE_MS = 900_000


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """`ended_at` (RFC 3339) and `evidence` are there once nothing runs on the Version any more."""

    version_uid: str
    worker_uid: str
    left_at_ms: int
    due_at_ms: int
    ended_at: str | None
    evidence: JsonObject | None


def withdraw_weighted(worker_uid: str, now_ms: int) -> Statement:
    """Every Version of the weights in force leaves now; `forget_weighted` takes back those that stay."""
    return Statement(
        """
        INSERT INTO catalog_withdrawals (version_uid, worker_uid, left_at_ms, due_at_ms)
        SELECT version_uid, worker_uid, ?2, ?3 FROM catalog_weights WHERE worker_uid = ?1
        ON CONFLICT (version_uid) DO UPDATE SET left_at_ms = excluded.left_at_ms, due_at_ms = excluded.due_at_ms,
            ended_at = NULL, evidence_json = NULL
        """,
        (worker_uid, now_ms, now_ms + GRACE_MS),
    )


def forget_weighted(worker_uid: str) -> Statement:
    """Versions in the weights are not withdrawn."""
    return Statement(
        """
        DELETE FROM catalog_withdrawals
        WHERE version_uid IN (SELECT version_uid FROM catalog_weights WHERE worker_uid = ?)
        """,
        (worker_uid,),
    )


def forget(version_uid: str) -> Statement:
    """The Version was removed."""
    return Statement("DELETE FROM catalog_withdrawals WHERE version_uid = ?", (version_uid,))


def end(version_uid: str, ended_at: str, evidence: JsonObject) -> Statement:
    """Record the proof, once."""
    return Statement(
        """
        UPDATE catalog_withdrawals SET ended_at = ?2, evidence_json = ?3
        WHERE version_uid = ?1 AND ended_at IS NULL
        """,
        (version_uid, ended_at, json.dumps(evidence, separators=(",", ":"))),
    )


def select() -> Statement:
    """All of them, for `withdrawal_of`."""
    return Statement(
        """
        SELECT version_uid, worker_uid, left_at_ms, due_at_ms, ended_at, evidence_json
        FROM catalog_withdrawals ORDER BY due_at_ms, version_uid
        """
    )


def withdrawal_of(row: Row) -> Withdrawal:
    """A row of `select` as a value."""
    version_uid, worker_uid, left_at_ms, due_at_ms, ended_at, evidence = row
    assert isinstance(left_at_ms, int) and isinstance(due_at_ms, int)
    return Withdrawal(
        version_uid=str(version_uid),
        worker_uid=str(worker_uid),
        left_at_ms=left_at_ms,
        due_at_ms=due_at_ms,
        ended_at=None if ended_at is None else str(ended_at),
        evidence=None if evidence is None else json.loads(str(evidence)),
    )
