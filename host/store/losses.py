"""Statements on what the host has found out between Operations: the Versions whose secrets no longer open (WV-12) or
whose held bytes are gone (WB-11), and the Resources that are still to be observed again. Decides nothing."""

from collections.abc import Iterable
from typing import cast

from host.sqlite import Transaction


def lost_secrets(tx: Transaction) -> frozenset[str]:
    """Uids of the Versions without their secrets."""
    return frozenset(cast(str, uid) for (uid,) in tx.execute("SELECT version_uid FROM lost_secrets"))


def has_lost_secrets(tx: Transaction, version_uid: str) -> bool:
    return bool(tx.execute("SELECT 1 FROM lost_secrets WHERE version_uid = ?", (version_uid,)))


def replace_lost_secrets(tx: Transaction, version_uids: Iterable[str]) -> None:
    """Those of live Resources; whatever was noted before is forgotten."""
    tx.execute("DELETE FROM lost_secrets")
    for uid in version_uids:
        tx.execute("INSERT INTO lost_secrets SELECT uid FROM resources WHERE uid = ?", (uid,))


def lost_files(tx: Transaction) -> frozenset[tuple[str, str]]:
    """Pairs of a Version's uid and the role of the bundle of which held bytes are lost: `bundle` or `assets`."""
    found = tx.execute("SELECT version_uid, role FROM lost_files")
    return frozenset((cast(str, uid), cast(str, role)) for uid, role in found)


def lost_files_of(tx: Transaction, version_uid: str) -> frozenset[str]:
    """The roles of the bundles of which a Version has lost held bytes."""
    found = tx.execute("SELECT role FROM lost_files WHERE version_uid = ?", (version_uid,))
    return frozenset(cast(str, role) for (role,) in found)


def users_of(tx: Transaction, bundle_uids: Iterable[str]) -> frozenset[tuple[str, str]]:
    """Pairs of a Version's uid and the role in which it refers to one of the bundles."""
    sql = "SELECT source_uid, role FROM resource_references WHERE target_uid = ? AND role IN ('bundle', 'assets')"
    found = (pair for uid in bundle_uids for pair in tx.execute(sql, (uid,)))
    return frozenset((cast(str, uid), cast(str, role)) for uid, role in found)


def replace_lost_files(tx: Transaction, pairs: Iterable[tuple[str, str]]) -> None:
    """Those of live Resources; whatever was noted before is forgotten."""
    tx.execute("DELETE FROM lost_files")
    for uid, role in pairs:
        tx.execute("INSERT INTO lost_files SELECT uid, ? FROM resources WHERE uid = ?", (role, uid))


def put_off_observation(tx: Transaction, uid: str) -> None:
    """Note that the Resource is to be observed again, once that is possible."""
    tx.execute("INSERT INTO observations_due SELECT uid FROM resources WHERE uid = ? ON CONFLICT DO NOTHING", (uid,))


def forget_observation(tx: Transaction, uid: str) -> None:
    """The record of the Resource says what is known, or it is gone."""
    tx.execute("DELETE FROM observations_due WHERE uid = ?", (uid,))


def observations_due(tx: Transaction) -> list[str]:
    """Uids of the Resources that are to be observed again, in order."""
    return [cast(str, uid) for (uid,) in tx.execute("SELECT uid FROM observations_due ORDER BY uid")]
