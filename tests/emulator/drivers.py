"""Fixtures of both D1 drivers: ours on a file, and workerd's own D1. Import the names where they are wanted."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from emulator.d1 import Driver, FileDriver
from tests.emulator.d1.workerd_d1 import WorkerdDriver, serve_d1

DRIVERS = ("file", "workerd")


@pytest.fixture(scope="session")
def d1_address(workerd: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """workerd's D1, once for all tests."""
    with serve_d1(workerd, tmp_path_factory.mktemp("d1")) as address:
        yield address


@pytest.fixture(params=DRIVERS)
async def driver(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Driver]:
    """An empty database."""
    if request.param == "file":
        ours = await FileDriver.open(tmp_path / "d1.sqlite", application_id=7, migrations=[])
        yield ours
        await ours.close()
        return
    theirs = WorkerdDriver(request.getfixturevalue("d1_address"))
    await theirs.drop_tables()
    yield theirs
    await theirs.close()
