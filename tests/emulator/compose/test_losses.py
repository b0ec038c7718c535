"""Who answers kernels that met lost bytes: what is told, and how often."""

import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from emulator.artifacts import ArtifactCustody
from emulator.catalog import Catalog
from emulator.compose.losses import TOLD_S, LossWatch, LostFiles
from emulator.compose.stored import EMULATOR_MIGRATIONS
from emulator.contexts import BindingCall
from emulator.d1 import Database, FileDriver
from emulator.workflow import APPLICATION_ID
from host import sqlite
from host.model.private_keys import KEY_BYTES, PrivateKeys
from host.model.time import RealTime
from host.ports import VersionRecord

DIGESTS = ("a" * 64, "b" * 64)


class Lines:
    def __init__(self) -> None:
        self.told: list[tuple[str, str | None, str]] = []

    def fail(self, worker_uid: str, version_uid: str | None, message: str) -> None:
        self.told.append((worker_uid, version_uid, message))


@pytest.fixture
async def file(tmp_path: Path) -> AsyncIterator[sqlite.Database]:
    path = tmp_path / "e.sqlite"
    opened = await sqlite.Database.open(path, application_id=APPLICATION_ID, migrations=EMULATOR_MIGRATIONS)
    yield opened
    await opened.close()


@pytest.mark.req("WB-11")
async def test_a_loss_is_told_once_a_minute_with_worker_version_and_digest(
    file: sqlite.Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    catalog = Catalog(Database(FileDriver(file)), PrivateKeys(b"k" * KEY_BYTES))
    await catalog.put_worker("w1", "shop")
    await catalog.put_version(VersionRecord("v1", "w1", None, {}, ()))
    artifacts = await ArtifactCustody.open(file, tmp_path / "artifacts")
    lines, now_s = Lines(), 5.0
    missing = LostFiles(artifacts, LossWatch(RealTime()), catalog, lines, lambda: now_s)

    async def meet(digest: str) -> None:
        reply = json.loads(await missing.answer(BindingCall("v1", "", "files", digest, None, "")))
        assert reply[:2] == ["error", "backend_unavailable"]

    with caplog.at_level(logging.ERROR):
        for digest in (*DIGESTS, *DIGESTS, *DIGESTS):
            await meet(digest)
        assert [line[:2] for line in lines.told] == [("w1", "v1")] * 2
        assert all(digest in line[2] for digest, line in zip(DIGESTS, lines.told, strict=True))
        now_s += TOLD_S
        await meet(DIGESTS[0])
    assert len(lines.told) == 3
    assert [message.count("'shop'") + message.count("v1") for message in caplog.messages] == [2, 2, 2]
