"""Routes of endpoints as rows: put, put again, removed, kept through a migration of an older file."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from emulator.catalog import Catalog
from emulator.catalog.schema import ENDPOINTS, SCHEMA, SECRETS, WITHDRAWALS
from emulator.compose.stored import EMULATOR_MIGRATIONS
from emulator.d1 import Database, FileDriver
from host import sqlite
from host.model.private_keys import KEY_BYTES, PrivateKeys
from host.sqlite import DatabaseError

EARLIER = (SCHEMA, SECRETS, WITHDRAWALS)


async def opened(path: Path, migrations: tuple[str, ...]) -> tuple[sqlite.Database, Catalog]:
    file = await sqlite.Database.open(path, application_id=7, migrations=migrations)
    return file, Catalog(Database(FileDriver(file)), PrivateKeys(b"k" * KEY_BYTES))


@pytest.fixture
async def catalog(tmp_path: Path) -> AsyncIterator[Catalog]:
    file, made = await opened(tmp_path / "a.sqlite", (*EARLIER, ENDPOINTS))
    yield made
    await file.close()


@pytest.mark.req("WE-11", "WE-14")
async def test_a_route_is_put_as_often_as_asked_and_removed_alone(catalog: Catalog) -> None:
    for _ in range(2):
        await catalog.put_endpoint("e-1", "w-1", "one.workers.localhost")
    await catalog.put_endpoint("e-2", "w-2", "two.workers.localhost")
    assert await catalog.endpoints() == {"w-1": ("one.workers.localhost",), "w-2": ("two.workers.localhost",)}
    for _ in range(2):
        await catalog.remove_endpoint("e-1")
    assert await catalog.endpoints() == {"w-2": ("two.workers.localhost",)}


@pytest.mark.req("WE-05")
async def test_no_endpoint_takes_the_name_of_another(catalog: Catalog) -> None:
    await catalog.put_endpoint("e-1", "w-1", "one.workers.localhost")
    with pytest.raises(DatabaseError):
        await catalog.put_endpoint("e-2", "w-2", "one.workers.localhost")
    assert await catalog.endpoints() == {"w-1": ("one.workers.localhost",)}


@pytest.mark.req("WE-13")
async def test_a_file_of_an_earlier_host_is_carried_forward_with_its_rows(tmp_path: Path) -> None:
    file, before = await opened(tmp_path / "a.sqlite", EARLIER)
    await before.put_worker("w-1", "shop")
    await file.close()
    file, after = await opened(tmp_path / "a.sqlite", (*EARLIER, ENDPOINTS))
    assert (await after.names(), await after.endpoints()) == ({"w-1": "shop"}, {})
    await after.put_endpoint("e-1", "w-1", "one.workers.localhost")
    await file.close()
    file, again = await opened(tmp_path / "a.sqlite", (*EARLIER, ENDPOINTS))
    assert await again.endpoints() == {"w-1": ("one.workers.localhost",)}
    await file.close()


def test_a_host_has_the_table_in_a_migration_of_its_own() -> None:
    """Files of hosts that were in use without endpoints have the migrations before it."""
    (number,) = [number for number, script in enumerate(EMULATOR_MIGRATIONS) if ENDPOINTS in script]
    assert number >= 3
