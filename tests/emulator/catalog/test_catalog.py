"""The catalog keeps Versions whole and answers by the weights in force."""

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from emulator.catalog import Catalog, WorkerRoute
from emulator.catalog.catalog import weigh
from emulator.catalog.schema import ASSETS, FILE_LOSSES, SCHEMA, SECRETS, WITHDRAWALS
from emulator.d1 import Database, FileDriver
from emulator.workflow import APPLICATION_ID, MIGRATIONS
from host import sqlite
from host.model.private_keys import KEY_BYTES, PrivateKeys
from host.ports import AssetsRecord, BindingRecord, VersionRecord, Weight

VERSION = VersionRecord(
    "v1",
    "w1",
    "d" * 64,
    {"A": {"b": [1.5, None]}, "é": "\ud83d\ude00"},
    (BindingRecord("WF", "workflow", "u"),),
    ("fetch",),
    ("Flow",),
)


@pytest.fixture
async def catalog(tmp_path: Path) -> AsyncIterator[Catalog]:
    migrations = [SCHEMA, SECRETS, WITHDRAWALS, ASSETS, FILE_LOSSES]
    file = await sqlite.Database.open(tmp_path / "a.sqlite", application_id=7, migrations=migrations)
    yield Catalog(Database(FileDriver(file)), PrivateKeys(b"k" * KEY_BYTES))
    await file.close()


@pytest.mark.req("WV-01")
async def test_a_version_is_read_back_whole_until_it_is_removed(catalog: Catalog) -> None:
    await catalog.put_version(VERSION)
    await catalog.put_version(VERSION)
    found = await catalog.version("v1")
    assert found is not None
    assert (found.bindings, found.handlers, found.classes) == (VERSION.bindings, ("fetch",), ("Flow",))
    assert found.vars == {"A": {"b": [1.5, None]}, "é": "\U0001f600"}
    await catalog.remove_version("v1")
    await catalog.remove_version("v1")
    assert await catalog.version("v1") is None


@pytest.mark.req("WV-01", "WV-02", "WV-14")
async def test_a_version_with_assets_is_read_back_with_code_or_without(catalog: Catalog) -> None:
    coded = replace(VERSION, assets=AssetsRecord("a" * 64, runs_worker_first=True, falls_back=False))
    static = VersionRecord("v2", "w1", None, {}, (), assets=AssetsRecord("b" * 64, False, falls_back=True))
    for version in (coded, static):
        await catalog.put_version(version)
        found = await catalog.version(version.version_uid)
        assert found is not None
        assert (found.code_digest, found.assets) == (version.code_digest, version.assets)


@pytest.mark.req("WV-01")
async def test_versions_of_a_file_from_before_there_were_assets_stay(tmp_path: Path) -> None:
    path = tmp_path / "emulator.sqlite"
    older = await sqlite.Database.open(path, application_id=APPLICATION_ID, migrations=MIGRATIONS[:3])
    columns = "version_uid, worker_uid, code_digest, vars_json, bindings_json, handlers_json, classes_json"
    row = f"INSERT INTO catalog_versions ({columns}) VALUES ('v', 'w', 'c', '{{}}', '[]', '[\"fetch\"]', '[]')"
    await older.write(lambda transaction: transaction.execute(row))
    await older.close()
    file = await sqlite.Database.open(path, application_id=APPLICATION_ID, migrations=MIGRATIONS)
    found = await Catalog(Database(FileDriver(file)), PrivateKeys(b"k" * KEY_BYTES)).version("v")
    assert found == VersionRecord("v", "w", "c", {}, (), ("fetch",))
    await file.close()


@pytest.mark.req("WD-04", "WD-07")
async def test_weights_switch_whole_and_go_with_their_deployment_alone(catalog: Catalog) -> None:
    await catalog.put_worker("w1", "shop")
    assert await catalog.routes() == ()
    assert await catalog.draw("w1", lambda: 0.5) is None
    await catalog.put_version(replace(VERSION, version_uid="v3"))
    await catalog.activate("d1", "w1", (Weight("v1", 5000), Weight("v2", 5000)), 0)
    await catalog.activate("d1", "w1", (Weight("v2", 1), Weight("v3", 9999)), 5)
    route = WorkerRoute("w1", "shop", "d1", 2, (Weight("v2", 1), Weight("v3", 9999)))
    assert await catalog.routes() == (route,)
    drawn = await catalog.draw("w1", lambda: 0.5)
    assert drawn is not None and drawn.version_uid == "v3"
    await catalog.retire_deployment("another")
    assert await catalog.routes() == (route,)
    await catalog.retire_deployment("d1")
    assert await catalog.routes() == ()
    await catalog.remove_worker("w1")


@pytest.mark.req("WD-01")
def test_every_version_gets_its_share_of_the_points() -> None:
    weights = (Weight("a", 3333), Weight("b", 3333), Weight("c", 3334))
    counted = Counter(weigh(weights, lambda n=n: n / 10_000) for n in range(10_000))  # type: ignore[misc]
    assert all(abs(counted[weight.version_uid] - weight.weight) <= 1 for weight in weights)
    assert weigh(weights, lambda: 0.999999999999) == "c"
    assert weigh((), lambda: 0.5) is None


@pytest.mark.req("WD-04")
async def test_a_version_that_leaves_the_weights_is_withdrawn_until_it_is_back(catalog: Catalog) -> None:
    await catalog.activate("d1", "w1", (Weight("a", 5000), Weight("b", 5000)), 1)
    await catalog.activate("d1", "w1", (Weight("b", 10000),), 1000)
    await catalog.activate("d1", "w1", (Weight("b", 10000),), 2000)
    assert [(each.version_uid, each.due_at_ms) for each in await catalog.withdrawals()] == [("a", 901_000)]
    await catalog.end_withdrawal("a", "2026-01-01T00:00:00.000Z", {"kind": "ack"})
    await catalog.end_withdrawal("a", "later", {"kind": "exit"})
    [ended] = await catalog.withdrawals()
    assert (ended.ended_at, ended.evidence) == ("2026-01-01T00:00:00.000Z", {"kind": "ack"})
    await catalog.activate("d1", "w1", (Weight("a", 10000),), 3000)
    assert [(each.version_uid, each.due_at_ms) for each in await catalog.withdrawals()] == [("b", 903_000)]
    assert await catalog.is_weighted("a") and not await catalog.is_weighted("b")
    await catalog.remove_version("b")
    assert await catalog.withdrawals() == ()
