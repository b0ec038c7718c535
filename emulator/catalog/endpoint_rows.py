"""Names beyond a Worker's own that lead to it, as statements. Decides nothing and knows no certificate."""

from collections.abc import Sequence

from emulator.d1 import Statement
from host.sqlite.transaction import Row


def put(endpoint_uid: str, worker_uid: str, hostname: str) -> Statement:
    """Put the name in place of what the endpoint had; another endpoint's name is never taken."""
    return Statement(
        """
        INSERT INTO catalog_endpoints (endpoint_uid, worker_uid, hostname) VALUES (?1, ?2, ?3)
        ON CONFLICT (endpoint_uid) DO UPDATE SET worker_uid = excluded.worker_uid, hostname = excluded.hostname
        """,
        (endpoint_uid, worker_uid, hostname),
    )


def remove(endpoint_uid: str) -> Statement:
    return Statement("DELETE FROM catalog_endpoints WHERE endpoint_uid = ?", (endpoint_uid,))


def select() -> Statement:
    """All of them, for `hostnames_of`."""
    return Statement("SELECT worker_uid, hostname FROM catalog_endpoints ORDER BY worker_uid, endpoint_uid")


def hostnames_of(found: Sequence[Row]) -> dict[str, tuple[str, ...]]:
    """Rows of `select` by Worker."""
    names: dict[str, tuple[str, ...]] = {}
    for worker_uid, hostname in found:
        names[str(worker_uid)] = (*names.get(str(worker_uid), ()), str(hostname))
    return names
