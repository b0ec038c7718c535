"""Versions and weights between rows and values. Decides nothing; secrets are sealed bytes here."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence

from emulator.d1 import Statement
from host.model.json import JsonValue
from host.ports import AssetsRecord, BindingRecord, VersionRecord, Weight
from host.sqlite.transaction import Row

_COLUMNS = (
    "version_uid, worker_uid, code_digest, vars_json, bindings_json, handlers_json, classes_json, secrets_sealed,"
    " assets_json"
)
_IS_WITHHELD = "version_uid IN (SELECT version_uid FROM catalog_withheld)"
_NO_CODE = ""


def _text(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)


def put_version(version: VersionRecord, sealed: bytes | None) -> Statement:
    """Insert the Version, or put it in place of an earlier copy."""
    bindings: list[JsonValue] = [[b.name, b.kind, b.target_uid] for b in version.bindings]
    return Statement(
        f"INSERT OR REPLACE INTO catalog_versions ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            version.version_uid,
            version.worker_uid,
            version.code_digest or _NO_CODE,
            _text(dict(version.vars)),
            _text(bindings),
            _text(list(version.handlers)),
            _text(list(version.classes)),
            sealed,
            _assets_text(version.assets),
        ),
    )


def select_version(version_uid: str) -> Statement:
    sql = f"SELECT {_COLUMNS}, {_IS_WITHHELD} FROM catalog_versions WHERE version_uid = ?"
    return Statement(sql, (version_uid,))


def select_weighted(worker_uid: str) -> Statement:
    """The Versions of a Worker that are in the weights."""
    weighted = "SELECT version_uid FROM catalog_weights WHERE worker_uid = ?"
    sql = f"SELECT {_COLUMNS}, {_IS_WITHHELD} FROM catalog_versions WHERE version_uid IN ({weighted})"
    return Statement(sql, (worker_uid,))


def select_sealed(version_uid: str) -> Statement:
    return Statement("SELECT secrets_sealed FROM catalog_versions WHERE version_uid = ?", (version_uid,))


def select_all_sealed() -> Statement:
    return Statement("SELECT version_uid, secrets_sealed FROM catalog_versions WHERE secrets_sealed IS NOT NULL")


def mark_lost(version_uids: Iterable[str]) -> Statement:
    """Let the rows of these Versions say that their secrets are lost, and the others' that they are not."""
    return Statement(
        """
        UPDATE catalog_versions SET has_lost_secrets = NOT has_lost_secrets
        WHERE has_lost_secrets <> (version_uid IN (SELECT value FROM json_each(?1)))
        """,
        (json.dumps(sorted(version_uids)),),
    )


def withhold(version_uids: Iterable[str]) -> list[Statement]:
    """Let these be all the Versions that are withheld."""
    return [
        Statement("DELETE FROM catalog_withheld"),
        Statement("INSERT INTO catalog_withheld SELECT value FROM json_each(?)", (json.dumps(sorted(version_uids)),)),
    ]


def version_of(row: Row, unseal: Callable[[str, bytes], Mapping[str, str] | None]) -> VersionRecord:
    """A row of `select_version` as a value; `unseal` opens the secrets of a Version's uid."""
    uid, worker, digest, variables, bindings, handlers, classes = map(str, row[:7])
    sealed, assets, is_withheld = row[7:10]
    return VersionRecord(
        version_uid=uid,
        worker_uid=worker,
        code_digest=digest or None,
        vars=json.loads(variables),
        bindings=tuple(BindingRecord(*entry) for entry in json.loads(bindings)),
        handlers=tuple(json.loads(handlers)),
        classes=tuple(json.loads(classes)),
        secrets=unseal(uid, sealed) if isinstance(sealed, bytes) else {},
        assets=AssetsRecord(*json.loads(assets)) if isinstance(assets, str) else None,
        is_withheld=bool(is_withheld),
    )


def _assets_text(assets: AssetsRecord | None) -> str | None:
    if assets is None:
        return None
    return _text([assets.manifest_sha256, assets.runs_worker_first, assets.falls_back])


def select_weights(worker_uid: str | None = None) -> Statement:
    """Weights of one Worker, or of all."""
    sql = "SELECT worker_uid, version_uid, weight FROM catalog_weights"
    if worker_uid is None:
        return Statement(f"{sql} ORDER BY worker_uid, version_uid")
    return Statement(f"{sql} WHERE worker_uid = ? ORDER BY version_uid", (worker_uid,))


def weights_of(found: Sequence[Row]) -> dict[str, tuple[Weight, ...]]:
    """Rows of `select_weights` by Worker."""
    shares: dict[str, tuple[Weight, ...]] = {}
    for worker_uid, version_uid, weight in found:
        assert isinstance(weight, int)
        shares[str(worker_uid)] = (*shares.get(str(worker_uid), ()), Weight(str(version_uid), weight))
    return shares
