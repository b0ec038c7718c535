"""Custody of fetched bytes: one hold, nobody else's permission, and nothing of the network afterwards."""

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import pytest

from emulator.artifacts import SCHEMA, ArtifactCustody, held_url
from host.ports import ArtifactRefused, ArtifactSource
from host.sqlite import Database

CONTENT = b"export default {}"
DIGEST = hashlib.sha256(CONTENT).hexdigest()
SOURCE = ArtifactSource("https://files.example/worker.js", DIGEST)


class Shelf:
    """Sources with one body; counts how often it was asked and whether its reader let go."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.asked: list[str] = []
        self.open = 0

    async def fetch(self, url: str, max_bytes: int) -> AsyncGenerator[bytes, None]:
        self.asked.append(url)
        self.open += 1
        try:
            for start in range(0, len(self.body), 5):
                yield self.body[start : start + 5]
        finally:
            self.open -= 1


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    opened = await Database.open(tmp_path / "emulator.sqlite", application_id=1, migrations=(SCHEMA,))
    yield opened
    await opened.close()


async def custody(database: Database, tmp_path: Path, shelf: Shelf | None) -> ArtifactCustody:
    return await ArtifactCustody.open(database, tmp_path / "artifacts", shelf)


@pytest.mark.req("WB-05", "WB-08")
async def test_fetched_bytes_stay_without_their_source(database: Database, tmp_path: Path) -> None:
    shelf = Shelf(CONTENT)
    held = await (await custody(database, tmp_path, shelf)).hold("alice", "bundle-1", SOURCE, 1000)
    assert (held.size_bytes, shelf.open) == (len(CONTENT), 0)
    again = await custody(database, tmp_path, None)
    assert await again.read(DIGEST) == CONTENT
    assert await again.hold("alice", "bundle-2", SOURCE, 1000) == held
    assert shelf.asked == [SOURCE.url]


@pytest.mark.req("WB-06")
async def test_another_principal_fetches_for_itself(database: Database, tmp_path: Path) -> None:
    shelf = Shelf(CONTENT)
    store = await custody(database, tmp_path, shelf)
    await store.hold("alice", "bundle-1", SOURCE, 1000)
    await store.hold("bob", "bundle-2", SOURCE, 1000)
    assert len(shelf.asked) == 2
    shelf.body = b"gone"
    with pytest.raises(ArtifactRefused):
        await store.hold("carol", "bundle-3", SOURCE, 1000)


@pytest.mark.req("WB-07")
@pytest.mark.parametrize(("body", "limit"), [(CONTENT + b"!", 1000), (CONTENT, 10)])
async def test_other_or_too_many_bytes_leave_nothing(
    database: Database, tmp_path: Path, body: bytes, limit: int
) -> None:
    shelf = Shelf(body)
    store = await custody(database, tmp_path, shelf)
    with pytest.raises(ArtifactRefused):
        await store.hold("alice", "bundle-1", SOURCE, limit)
    assert shelf.open == 0
    assert not [path for path in (tmp_path / "artifacts").rglob("*") if path.is_file()]


@pytest.mark.req("WB-08")
async def test_released_fetched_bytes_are_gone_and_fetched_anew(database: Database, tmp_path: Path) -> None:
    shelf = Shelf(CONTENT)
    store = await custody(database, tmp_path, shelf)
    await store.hold("alice", "bundle-1", SOURCE, 1000)
    await store.release("bundle-1")
    with pytest.raises(ArtifactRefused, match="gone"):
        await store.read(DIGEST)
    await store.hold("alice", "bundle-2", SOURCE, 1000)
    assert len(shelf.asked) == 2


@pytest.mark.req("WB-06")
async def test_a_source_without_a_place_is_never_asked_for(database: Database, tmp_path: Path) -> None:
    shelf = Shelf(CONTENT)
    store = await custody(database, tmp_path, shelf)
    with pytest.raises(ArtifactRefused, match="not held"):
        await store.hold("alice", "bundle-1", ArtifactSource(held_url(DIGEST), DIGEST), 1000)
    assert shelf.asked == []
