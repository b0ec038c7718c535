"""Rows of held artifacts: sizes, grants to principals, holds of Resources. Knows no file."""

from collections.abc import Iterable

from host.sqlite import Transaction

SCHEMA = """
CREATE TABLE artifact_contents (
    digest TEXT PRIMARY KEY,
    size_bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE artifact_grants (
    principal TEXT NOT NULL,
    digest TEXT NOT NULL REFERENCES artifact_contents (digest),
    PRIMARY KEY (principal, digest)
) STRICT, WITHOUT ROWID;
CREATE TABLE artifact_holds (
    holder_uid TEXT NOT NULL,
    digest TEXT NOT NULL REFERENCES artifact_contents (digest),
    principal TEXT NOT NULL,
    PRIMARY KEY (holder_uid, digest)
) STRICT, WITHOUT ROWID;
CREATE INDEX artifact_grants_by_digest ON artifact_grants (digest);
CREATE INDEX artifact_holds_by_digest ON artifact_holds (digest, principal);
"""

LOSSES = """
CREATE TABLE artifact_losses (
    digest TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;
"""
"""Contents whose file was found gone or damaged: kept, as a size alone does not tell a damaged file (WB-11)."""

_DROP_UNHELD = """
DELETE FROM artifact_contents
WHERE NOT EXISTS (SELECT 1 FROM artifact_grants g WHERE g.digest = artifact_contents.digest)
    AND NOT EXISTS (SELECT 1 FROM artifact_holds h WHERE h.digest = artifact_contents.digest)
RETURNING digest
"""


def grant(transaction: Transaction, principal: str, digest: str, size_bytes: int) -> None:
    """The principal has shown these bytes and may use them."""
    transaction.execute("INSERT OR IGNORE INTO artifact_contents VALUES (?, ?)", (digest, size_bytes))
    transaction.execute("INSERT OR IGNORE INTO artifact_grants VALUES (?, ?)", (principal, digest))


def revoke(transaction: Transaction, principal: str, digest: str) -> bool:
    """Take an upload back; says whether there was one."""
    transaction.execute("DELETE FROM artifact_grants WHERE principal = ? AND digest = ?", (principal, digest))
    return transaction.changes > 0


def size_for(transaction: Transaction, principal: str, digest: str) -> int | None:
    """Size in bytes when `principal` holds `digest` by an upload or through a Resource, else None."""
    found = transaction.execute(
        """
        SELECT size_bytes FROM artifact_contents c WHERE c.digest = ?1 AND (
            EXISTS (SELECT 1 FROM artifact_grants g WHERE g.digest = ?1 AND g.principal = ?2)
            OR EXISTS (SELECT 1 FROM artifact_holds h WHERE h.digest = ?1 AND h.principal = ?2))
        """,
        (digest, principal),
    )
    return int(found[0][0]) if found else None  # type: ignore[arg-type]


def hold(transaction: Transaction, holder_uid: str, digest: str, principal: str) -> None:
    """Repeating changes nothing."""
    transaction.execute("INSERT OR IGNORE INTO artifact_holds VALUES (?, ?, ?)", (holder_uid, digest, principal))


def take(transaction: Transaction, holder_uid: str, digest: str, principal: str, size_bytes: int) -> None:
    """Bytes that were fetched for a Resource: its hold is all that the principal has of them."""
    transaction.execute("INSERT OR IGNORE INTO artifact_contents VALUES (?, ?)", (digest, size_bytes))
    hold(transaction, holder_uid, digest, principal)


def release(transaction: Transaction, holder_uid: str) -> None:
    transaction.execute("DELETE FROM artifact_holds WHERE holder_uid = ?", (holder_uid,))


def drop_unheld(transaction: Transaction) -> tuple[str, ...]:
    """Forget contents that nobody holds; returns their digests, whose files may go (WB-08)."""
    return tuple(str(digest) for (digest,) in transaction.execute(_DROP_UNHELD))


def digests(transaction: Transaction) -> tuple[str, ...]:
    """Every content that somebody holds."""
    return tuple(str(digest) for (digest,) in transaction.execute("SELECT digest FROM artifact_contents"))


def unknown_among(transaction: Transaction, digests: Iterable[str]) -> tuple[str, ...]:
    """The digests that have no row: files left by a process that died between file and row."""
    known = {str(digest) for (digest,) in transaction.execute("SELECT digest FROM artifact_contents")}
    return tuple(digest for digest in digests if digest not in known)


def sizes(transaction: Transaction) -> dict[str, int]:
    """Size in bytes of every content that somebody holds."""
    found = transaction.execute("SELECT digest, size_bytes FROM artifact_contents")
    return {str(digest): int(size) for digest, size in found}  # type: ignore[arg-type]


def lost(transaction: Transaction) -> frozenset[str]:
    """Digests whose bytes were found gone or damaged."""
    return frozenset(str(digest) for (digest,) in transaction.execute("SELECT digest FROM artifact_losses"))


def replace_lost(transaction: Transaction, digests: Iterable[str]) -> None:
    transaction.execute("DELETE FROM artifact_losses")
    for digest in digests:
        transaction.execute("INSERT INTO artifact_losses VALUES (?)", (digest,))


def holders_of_lost(transaction: Transaction) -> frozenset[str]:
    """Uids of the Resources that hold contents which are lost."""
    sql = "SELECT DISTINCT holder_uid FROM artifact_holds WHERE digest IN (SELECT digest FROM artifact_losses)"
    return frozenset(str(uid) for (uid,) in transaction.execute(sql))
