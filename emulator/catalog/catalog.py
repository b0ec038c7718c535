"""The rows that say which code a Worker's name stands for now. Knows neither processes nor instances.

Every call can be repeated with the same result.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from emulator.catalog import endpoint_rows, rows, withdrawal_rows
from emulator.catalog.secrets import VersionSecrets
from emulator.catalog.withdrawal_rows import Withdrawal
from emulator.d1 import Database, Statement
from host.model.json import JsonObject
from host.model.private_keys import PrivateKeys
from host.ports import SecretsMissing, VersionRecord, Weight

_SET_DEPLOYMENT = """
INSERT INTO catalog_deployments (worker_uid, deployment_uid, epoch) VALUES (?1, ?2, 1)
ON CONFLICT (worker_uid) DO UPDATE SET deployment_uid = excluded.deployment_uid, epoch = epoch + 1
"""
_ROUTES = """
SELECT w.worker_uid, w.name, d.deployment_uid, d.epoch
FROM catalog_workers w JOIN catalog_deployments d USING (worker_uid) ORDER BY w.name, w.worker_uid
"""


@dataclass(frozen=True, slots=True)
class WorkerRoute:
    """A Worker that takes requests: its Deployment and the shares of its Versions, in order of uid. `epoch` grows each
    time that weights are put in force, be they the same ones (HA-35)."""

    worker_uid: str
    name: str
    deployment_uid: str
    epoch: int
    weights: tuple[Weight, ...]

    @property
    def activation(self) -> str:
        """Which activation of which Deployment this is."""
        return f"{self.deployment_uid}/{self.epoch}"


def weigh(weights: Sequence[Weight], random: Callable[[], float]) -> str | None:
    """The Version that `random()` in [0, 1) falls to by its share of the whole; none without weights (WD-01)."""
    point = random() * sum(weight.weight for weight in weights)
    for weight in weights:
        point -= weight.weight
        if point < 0:
            return weight.version_uid
    return weights[-1].version_uid if weights else None


class Catalog:
    """Workers, Versions, Deployments and weights of one host. Raises `host.sqlite.DatabaseError` throughout."""

    def __init__(self, database: Database, keys: PrivateKeys) -> None:
        self._database = database
        self._secrets = VersionSecrets(keys)

    async def put_worker(self, worker_uid: str, name: str) -> None:
        await self._run("INSERT OR REPLACE INTO catalog_workers VALUES (?, ?)", worker_uid, name)

    async def remove_worker(self, worker_uid: str) -> None:
        await self._run("DELETE FROM catalog_workers WHERE worker_uid = ?", worker_uid)

    async def put_version(self, version: VersionRecord) -> None:
        """Put the Version in place of an earlier copy, its secrets sealed. Raises `SecretsMissing` (WV-12)."""
        if version.secrets is None:
            sealed: bytes | None = await self._kept_secrets(version.version_uid)
        else:
            sealed = self._secrets.seal(version.version_uid, version.secrets)
        await self._database.batch([rows.put_version(version, sealed)])

    async def remove_version(self, version_uid: str) -> None:
        await self._run("DELETE FROM catalog_versions WHERE version_uid = ?", version_uid)
        await self._database.batch([withdrawal_rows.forget(version_uid)])

    async def version(self, version_uid: str) -> VersionRecord | None:
        """The Version, or none when it was removed; with `secrets` None when these are lost: nothing runs on it."""
        [found] = await self._database.query([rows.select_version(version_uid)])
        return rows.version_of(found.rows[0], self._secrets.unseal) if found.rows else None

    async def note_lost_secrets(self) -> frozenset[str]:
        """Uids of the Versions whose sealed secrets do not open with this host's key (WV-12).

        Their rows say so from then on: no Workflow that would run on one is ready (WD-08, DW-18).
        """
        [found] = await self._database.query([rows.select_all_sealed()])
        lost = frozenset(
            str(uid)
            for uid, sealed in found.rows
            if isinstance(sealed, bytes) and self._secrets.unseal(str(uid), sealed) is None
        )
        await self._database.batch([rows.mark_lost(lost)])
        return lost

    async def withhold(self, version_uids: frozenset[str]) -> None:
        """Start nothing new on these Versions, and on all others again (WD-08)."""
        await self._database.batch(rows.withhold(version_uids))

    async def activate(self, deployment_uid: str, worker_uid: str, weights: tuple[Weight, ...], now_ms: int) -> None:
        """Put these weights in force, whole and at once; Versions that leave are withdrawn as of now (WD-04)."""
        await self._database.batch(
            [
                Statement(_SET_DEPLOYMENT, (worker_uid, deployment_uid)),
                withdrawal_rows.withdraw_weighted(worker_uid, now_ms),
                Statement("DELETE FROM catalog_weights WHERE worker_uid = ?", (worker_uid,)),
                *(
                    Statement("INSERT INTO catalog_weights VALUES (?, ?, ?)", (worker_uid, w.version_uid, w.weight))
                    for w in weights
                ),
                withdrawal_rows.forget_weighted(worker_uid),
            ]
        )

    async def retire_deployment(self, deployment_uid: str) -> None:
        """Take its weights out of force; another Deployment of the same Worker stays untouched (WD-07)."""
        owned = "worker_uid IN (SELECT worker_uid FROM catalog_deployments WHERE deployment_uid = ?)"
        await self._database.batch(
            [
                Statement(f"DELETE FROM catalog_weights WHERE {owned}", (deployment_uid,)),
                Statement("DELETE FROM catalog_deployments WHERE deployment_uid = ?", (deployment_uid,)),
            ]
        )

    async def put_endpoint(self, endpoint_uid: str, worker_uid: str, hostname: str) -> None:
        """Let the name lead to the Worker, in place of an earlier copy of the same endpoint (WE-11)."""
        await self._database.batch([endpoint_rows.put(endpoint_uid, worker_uid, hostname)])

    async def remove_endpoint(self, endpoint_uid: str) -> None:
        await self._database.batch([endpoint_rows.remove(endpoint_uid)])

    async def endpoints(self) -> dict[str, tuple[str, ...]]:
        """The assigned hostnames of Workers, by Worker's uid."""
        [found] = await self._database.query([endpoint_rows.select()])
        return endpoint_rows.hostnames_of(found.rows)

    async def routes(self) -> tuple[WorkerRoute, ...]:
        """Every Worker with an active Deployment, by name."""
        routes, weights = await self._database.query([Statement(_ROUTES), rows.select_weights()])
        shares = rows.weights_of(weights.rows)
        return tuple(
            WorkerRoute(str(uid), str(name), str(deployment), int(str(epoch)), shares.get(str(uid), ()))
            for uid, name, deployment, epoch in routes.rows
        )

    async def names(self) -> dict[str, str]:
        """Every Worker's uid and name, with a Deployment or without."""
        [found] = await self._database.query([Statement("SELECT worker_uid, name FROM catalog_workers ORDER BY name")])
        return {str(uid): str(name) for uid, name in found.rows}

    async def versions_of(self, worker_uid: str) -> tuple[str, ...]:
        """The uids of a Worker's Versions."""
        sql = "SELECT version_uid FROM catalog_versions WHERE worker_uid = ? ORDER BY version_uid"
        [found] = await self._database.query([Statement(sql, (worker_uid,))])
        return tuple(str(uid) for (uid,) in found.rows)

    async def draw(self, worker_uid: str, random: Callable[[], float]) -> VersionRecord | None:
        """A Version by the weights in force, or none without a Deployment (WD-03); secrets as `version` has them."""
        weights, versions = await self._database.query(
            [rows.select_weights(worker_uid), rows.select_weighted(worker_uid)]
        )
        version_uid = weigh(rows.weights_of(weights.rows).get(worker_uid, ()), random)
        drawn = (row for row in versions.rows if row[0] == version_uid)
        return next((rows.version_of(row, self._secrets.unseal) for row in drawn), None)

    async def is_weighted(self, version_uid: str) -> bool:
        """Whether new work may be given to the Version."""
        [found] = await self._database.query(
            [Statement("SELECT 1 FROM catalog_weights WHERE version_uid = ?", (version_uid,))]
        )
        return bool(found.rows)

    async def withdrawals(self) -> tuple[Withdrawal, ...]:
        """Versions that left the weights and are not in them again, in order of their deadlines."""
        [found] = await self._database.query([withdrawal_rows.select()])
        return tuple(withdrawal_rows.withdrawal_of(row) for row in found.rows)

    async def end_withdrawal(self, version_uid: str, ended_at: str, evidence: JsonObject) -> None:
        """What ran on the Version is proven to have stopped; without effect when it is in the weights again."""
        await self._database.batch([withdrawal_rows.end(version_uid, ended_at, evidence)])

    async def _kept_secrets(self, version_uid: str) -> bytes:
        """What is sealed already, proven to open."""
        [found] = await self._database.query([rows.select_sealed(version_uid)])
        sealed = found.rows[0][0] if found.rows else None
        if not isinstance(sealed, bytes) or self._secrets.unseal(version_uid, sealed) is None:
            raise SecretsMissing("the runtime does not hold the secrets of the Version")
        return sealed

    async def _run(self, sql: str, *values: str) -> None:
        await self._database.prepare(sql).bind(*values).run()
