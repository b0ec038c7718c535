"""Statements on Resources, the references between them and the markers that deleted ones leave."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import cast

from host.model.json import JsonObject, decode_object, text_of
from host.model.operation_states import Action, Phase
from host.model.records import Resource, ResourceFilter
from host.sqlite import Transaction, Value

_COLUMNS = (
    "r.uid, r.owner, r.form_url, r.space, r.name, r.generation, r.observed_generation, r.observed_at_ms, r.phase,"
    " r.spec, r.observed, r.output, r.facts, r.last_operation,"
    " (SELECT o.action FROM operations o WHERE o.resource_uid = r.uid AND o.status NOT IN ('succeeded', 'failed'))"
)

_OF_OWNER, _BY_NAME, _ONE = "resources_of_owner", "resources_by_name", "sqlite_autoindex_resources_2"
_LIST_INDEX: Mapping[tuple[bool, bool, bool], str] = MappingProxyType(
    {
        (False, False, False): _OF_OWNER,
        (True, False, False): "resources_by_space",
        (False, False, True): "resources_by_form",
        (True, False, True): "resources_by_space_and_form",
        (False, True, False): _BY_NAME,
        (False, True, True): _BY_NAME,
        (True, True, False): _ONE,
        (True, True, True): _ONE,
    }
)
"""The order to walk in, by the filters given: Space, name, Form. A page never sorts and skips at most one Space's."""


def find_resource(tx: Transaction, owner: str, uid: str) -> Resource | None:
    return _first(tx.execute(f"SELECT {_COLUMNS} FROM resources r WHERE r.uid = ? AND r.owner = ?", (uid, owner)))


def find_of_anybody(tx: Transaction, uid: str) -> Resource | None:
    """For the host's own work alone: no caller is asked for."""
    return _first(tx.execute(f"SELECT {_COLUMNS} FROM resources r WHERE r.uid = ?", (uid,)))


def find_by_name(tx: Transaction, owner: str, space: str, name: str) -> Resource | None:
    where = "r.owner = ? AND r.space = ? AND r.name = ?"
    return _first(tx.execute(f"SELECT {_COLUMNS} FROM resources r WHERE {where}", (owner, space, name)))


def list_resources(tx: Transaction, owner: str, where: ResourceFilter, after_uid: str, limit: int) -> list[Resource]:
    """At most `limit` Resources with a uid greater than `after_uid`, in ASCII order of uid (HA-34)."""
    conditions = ["r.owner = ?", "r.uid > ?"]
    values: list[Value] = [owner, after_uid]
    index = _LIST_INDEX[where.space is not None, where.name is not None, where.form_url is not None]
    for column, value in (("space", where.space), ("name", where.name), ("form_url", where.form_url)):
        if value is not None:
            conditions.append(f"r.{column} = ?")
            values.append(value)
    condition = " AND ".join(conditions)
    source = f"resources r INDEXED BY {index}"
    rows = tx.execute(f"SELECT {_COLUMNS} FROM {source} WHERE {condition} ORDER BY r.uid LIMIT ?", (*values, limit))
    return [_resource(row) for row in rows]


def insert_resource(tx: Transaction, resource: Resource) -> None:
    tx.execute(
        "INSERT INTO resources VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            resource.uid,
            resource.owner,
            resource.form_url,
            resource.space,
            resource.name,
            resource.generation,
            resource.observed_generation,
            resource.observed_at_ms,
            resource.phase,
            text_of(resource.spec),
            text_of(resource.observed),
            text_of(resource.output),
            text_of(resource.facts),
            resource.last_operation,
        ),
    )


def accept_change(
    tx: Transaction, uid: str, generation: int, phase: Phase, operation_id: str, spec: JsonObject | None
) -> None:
    """Note an accepted update or delete; `spec` replaces the stored one when it is given."""
    tx.execute(
        "UPDATE resources SET generation = ?, phase = ?, last_operation = ?, spec = coalesce(?, spec) WHERE uid = ?",
        (generation, phase, operation_id, None if spec is None else text_of(spec), uid),
    )


@dataclass(frozen=True, slots=True)
class Verified:
    """What a successful Operation wrote into its Resource."""

    generation: int
    at_ms: int
    observed: JsonObject
    output: JsonObject
    facts: JsonObject


def store_verified(tx: Transaction, uid: str, phase: Phase, verified: Verified) -> None:
    tx.execute(
        "UPDATE resources SET phase = ?, observed_generation = ?, observed_at_ms = ?, observed = ?, output = ?,"
        " facts = ? WHERE uid = ?",
        (
            phase,
            verified.generation,
            verified.at_ms,
            text_of(verified.observed),
            text_of(verified.output),
            text_of(verified.facts),
            uid,
        ),
    )


def store_observation(tx: Transaction, uid: str, observed: JsonObject, at_ms: int) -> None:
    """A fresh observation of an unchanged Resource."""
    tx.execute("UPDATE resources SET observed = ?, observed_at_ms = ? WHERE uid = ?", (text_of(observed), at_ms, uid))


def store_failed(tx: Transaction, uid: str, phase: Phase, facts: JsonObject | None) -> None:
    """Spec and observation stay as they are (HA-38, HA-44)."""
    tx.execute(
        "UPDATE resources SET phase = ?, facts = coalesce(?, facts) WHERE uid = ?",
        (phase, None if facts is None else text_of(facts), uid),
    )


def delete_resource(tx: Transaction, uid: str, at_ms: int) -> None:
    """Free record and name, leave a marker (HA-33, HA-36)."""
    tx.execute("DELETE FROM resource_references WHERE source_uid = ?", (uid,))
    tx.execute("DELETE FROM lost_secrets WHERE version_uid = ?", (uid,))
    tx.execute("DELETE FROM lost_files WHERE version_uid = ?", (uid,))
    tx.execute("DELETE FROM observations_due WHERE uid = ?", (uid,))
    tx.execute("INSERT INTO deleted_resources SELECT uid, owner, ?, space FROM resources WHERE uid = ?", (at_ms, uid))
    tx.execute("DELETE FROM resources WHERE uid = ?", (uid,))


def deleted_space(tx: Transaction, owner: str, uid: str) -> str | None:
    """The Space that a deleted Resource of this owner was in; `None` without a marker."""
    rows = tx.execute("SELECT space FROM deleted_resources WHERE uid = ? AND owner = ?", (uid, owner))
    return cast(str, rows[0][0]) if rows else None


def add_references(tx: Transaction, source_uid: str, targets: Iterable[tuple[str, str]]) -> None:
    """`targets` are pairs of role and uid; those that stand already stay."""
    for role, uid in targets:
        tx.execute(
            "INSERT INTO resource_references (source_uid, target_uid, role) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
            (source_uid, uid, role),
        )


def replace_references(tx: Transaction, source_uid: str, targets: Iterable[tuple[str, str]]) -> None:
    tx.execute("DELETE FROM resource_references WHERE source_uid = ?", (source_uid,))
    add_references(tx, source_uid, targets)


def find_referrers(tx: Transaction, owner: str, uid: str, form_url: str | None) -> list[Resource]:
    """Live Resources that refer to `uid`, in order of uid."""
    rows = tx.execute(
        f"SELECT {_COLUMNS} FROM resources r WHERE r.owner = ? AND (?2 IS NULL OR r.form_url = ?2)"
        " AND r.uid IN (SELECT source_uid FROM resource_references WHERE target_uid = ?3) ORDER BY r.uid",
        (owner, form_url, uid),
    )
    return [_resource(row) for row in rows]


def has_earlier_unfinished(tx: Transaction, uids: Sequence[str], ord_: int) -> bool:
    """Whether one of the Resources has a create or update that was accepted before `ord_` and is undecided."""
    marks = ", ".join("?" for _ in uids)
    rows = tx.execute(
        f"SELECT 1 FROM operations WHERE resource_uid IN ({marks}) AND ord < ? AND action <> 'delete'"
        " AND status NOT IN ('succeeded', 'failed') LIMIT 1",
        (*uids, ord_),
    )
    return bool(rows)


def _first(rows: list[tuple[Value, ...]]) -> Resource | None:
    return _resource(rows[0]) if rows else None


def _resource(row: tuple[Value, ...]) -> Resource:
    texts = [cast(str, value) for value in row[:5]]
    spec, observed, output, facts = (_stored_object(cast(str, value)) for value in row[9:13])
    return Resource(
        uid=texts[0],
        owner=texts[1],
        form_url=texts[2],
        space=texts[3],
        name=texts[4],
        generation=cast(int, row[5]),
        observed_generation=cast(int, row[6]),
        observed_at_ms=cast("int | None", row[7]),
        phase=Phase(cast(str, row[8])),
        spec=spec,
        observed=observed,
        output=output,
        facts=facts,
        last_operation=cast(str, row[13]),
        unfinished=None if row[14] is None else Action(cast(str, row[14])),
    )


def _stored_object(text: str) -> JsonObject:
    """Most documents of a list are empty: these need no parser."""
    return {} if text == "{}" else decode_object(text)
