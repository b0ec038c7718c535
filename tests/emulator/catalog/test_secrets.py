"""A Version's secrets in the catalog: sealed in the file, whole in the value, lost only with the host key."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from emulator.catalog import Catalog
from emulator.d1 import Database as Rows
from emulator.d1 import FileDriver
from emulator.runtime.log_tags import LogTags
from emulator.runtime.routes import GatewayRoute, RoutedVersion, RouteTable
from emulator.workflow import APPLICATION_ID, MIGRATIONS
from host.model.private_keys import KEY_BYTES, PrivateKeys
from host.ports import SecretsMissing, VersionRecord
from host.sqlite import Database

RECORD = VersionRecord("v-1", "w-1", "0" * 64, {"A": 1}, (), secrets={"TOKEN": "correct horse é"})


@asynccontextmanager
async def catalog(path: Path, material: bytes = b"k") -> AsyncIterator[Catalog]:
    database = await Database.open(path, application_id=APPLICATION_ID, migrations=MIGRATIONS)
    try:
        yield Catalog(Rows(FileDriver(database)), PrivateKeys(material * KEY_BYTES))
    finally:
        await database.close()


@pytest.mark.req("HA-61", "WV-07")
async def test_secrets_are_sealed_at_rest_and_whole_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "emulator.sqlite"
    async with catalog(path) as first:
        await first.put_version(RECORD)
    assert b"horse" not in b"".join(each.read_bytes() for each in tmp_path.iterdir())
    async with catalog(path) as second:
        assert await second.version("v-1") == RECORD


@pytest.mark.req("WV-07", "WV-12")
async def test_a_version_put_again_without_its_secrets_keeps_them(tmp_path: Path) -> None:
    async with catalog(tmp_path / "emulator.sqlite") as open_catalog:
        with pytest.raises(SecretsMissing):
            await open_catalog.put_version(replace(RECORD, secrets=None))
        assert await open_catalog.version("v-1") is None
        await open_catalog.put_version(RECORD)
        await open_catalog.put_version(replace(RECORD, secrets=None))
        assert await open_catalog.version("v-1") == RECORD


@pytest.mark.req("WV-12", "WD-08")
async def test_under_another_host_key_the_secrets_are_lost_and_nothing_runs_on_the_version(tmp_path: Path) -> None:
    path = tmp_path / "emulator.sqlite"
    async with catalog(path) as first:
        await first.put_version(RECORD)
    async with catalog(path, b"o") as second:
        found = await second.version("v-1")
        assert found is not None
        assert found.secrets is None
        with pytest.raises(SecretsMissing):
            await second.put_version(replace(RECORD, secrets=None))
        table = RouteTable((GatewayRoute("w-1", "w", (RoutedVersion(found, 10000),)),))
        assert '"secrets":null' in table.to_json(LogTags())
