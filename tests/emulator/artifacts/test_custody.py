"""Custody of held artifacts on a real database and real files."""

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from emulator.artifacts import SCHEMA, ArtifactCustody, ArtifactTooLarge, DigestMismatch, custody, held_url
from host.ports import ArtifactRefused, ArtifactSource
from host.sqlite import Database, DatabaseFull

CONTENT = b"export default {}"
DIGEST = hashlib.sha256(CONTENT).hexdigest()
SOURCE = ArtifactSource(held_url(DIGEST), DIGEST)


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    opened = await Database.open(tmp_path / "emulator.sqlite", application_id=1, migrations=(SCHEMA,))
    yield opened
    await opened.close()


@pytest.fixture
async def held(database: Database, tmp_path: Path) -> ArtifactCustody:
    return await ArtifactCustody.open(database, tmp_path / "artifacts")


async def chunks(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


@pytest.mark.req("WB-05", "WB-06")
async def test_an_upload_is_held_for_its_principal_under_any_url(held: ArtifactCustody, tmp_path: Path) -> None:
    stored = await held.put("local", DIGEST, chunks(CONTENT[:3], CONTENT[3:]))
    elsewhere = ArtifactSource("https://example.com/worker.js", DIGEST)
    assert stored == await held.hold("local", "bundle-1", elsewhere, 1000)
    assert await held.read(DIGEST) == CONTENT
    assert (tmp_path / "artifacts" / "sha256" / DIGEST[:2] / DIGEST).read_bytes() == CONTENT


@pytest.mark.req("WB-06", "WB-08")
async def test_without_room_for_its_row_a_file_goes_again_unless_it_was_held(
    held: ArtifactCustody, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(work: object) -> None:
        raise DatabaseFull("database or disk is full")

    await held.put("local", DIGEST, chunks(CONTENT))
    other = hashlib.sha256(b"other").hexdigest()
    with monkeypatch.context() as full:
        full.setattr(held._database, "write", refuse)
        for digest, content in ((DIGEST, CONTENT), (other, b"other")):
            with pytest.raises(DatabaseFull):
                await held.put("alice", digest, chunks(content))
    assert files_in(tmp_path / "artifacts") == [DIGEST]
    assert await held.read(DIGEST) == CONTENT
    await held.put("alice", other, chunks(b"other"))
    assert await held.read(other) == b"other"


@pytest.mark.req("WB-06")
async def test_a_matching_digest_alone_is_no_permission(held: ArtifactCustody) -> None:
    await held.put("local", DIGEST, chunks(CONTENT))
    with pytest.raises(ArtifactRefused, match="not held for this principal"):
        await held.hold("stranger", "bundle-1", SOURCE, 1000)


@pytest.mark.req("WB-07")
async def test_bytes_of_another_digest_leave_nothing_behind(held: ArtifactCustody, tmp_path: Path) -> None:
    with pytest.raises(DigestMismatch):
        await held.put("local", DIGEST, chunks(CONTENT, b"!"))
    assert files_in(tmp_path / "artifacts") == []
    with pytest.raises(ArtifactRefused):
        await held.hold("local", "bundle-1", SOURCE, 1000)


@pytest.mark.req("WB-06")
async def test_an_upload_over_the_limit_is_read_no_further(
    held: ArtifactCustody, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(custody, "MAX_ARTIFACT_BYTES", 2 * 1024 * 1024)
    read = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal read
        while True:
            read += 1024 * 1024
            yield bytes(1024 * 1024)

    with pytest.raises(ArtifactTooLarge):
        await held.put("local", DIGEST, endless())
    assert read == 3 * 1024 * 1024
    assert files_in(tmp_path / "artifacts") == []


@pytest.mark.req("WB-02", "WB-07")
async def test_a_holding_larger_than_the_form_allows_is_refused(held: ArtifactCustody) -> None:
    await held.put("local", DIGEST, chunks(CONTENT))
    with pytest.raises(ArtifactRefused, match="more than 3"):
        await held.hold("local", "bundle-1", SOURCE, 3)


@pytest.mark.req("WB-08")
async def test_released_bytes_go_only_when_nobody_else_holds_them(held: ArtifactCustody) -> None:
    await held.put("local", DIGEST, chunks(CONTENT))
    await held.hold("local", "bundle-1", SOURCE, 1000)
    await held.hold("local", "bundle-2", SOURCE, 1000)
    assert await held.withdraw("local", DIGEST)
    await held.release("bundle-1")
    await held.release("bundle-1")
    assert await held.read(DIGEST) == CONTENT
    await held.release("bundle-2")
    with pytest.raises(ArtifactRefused, match="gone"):
        await held.read(DIGEST)


@pytest.mark.req("WB-08")
async def test_holdings_outlive_the_process_and_orphan_files_do_not(
    held: ArtifactCustody, database: Database, tmp_path: Path
) -> None:
    await held.put("local", DIGEST, chunks(CONTENT))
    orphan = tmp_path / "artifacts" / "sha256" / "00" / ("0" * 64)
    orphan.parent.mkdir()
    orphan.write_bytes(b"half")
    (tmp_path / "artifacts" / "incoming" / "tmp1").write_bytes(b"half")
    again = await ArtifactCustody.open(database, tmp_path / "artifacts")
    await again.hold("local", "bundle-1", SOURCE, 1000)
    assert files_in(tmp_path / "artifacts") == [DIGEST]


@pytest.mark.req("WB-10", "WB-11")
@pytest.mark.parametrize("damage", [b"other bytes", None])
async def test_lost_or_damaged_bytes_are_refused_and_never_replaced(
    held: ArtifactCustody, tmp_path: Path, damage: bytes | None
) -> None:
    await held.put("local", DIGEST, chunks(CONTENT))
    file = tmp_path / "artifacts" / "sha256" / DIGEST[:2] / DIGEST
    file.unlink()
    if damage is not None:
        file.write_bytes(damage)
    with pytest.raises(ArtifactRefused):
        await held.hold("local", "bundle-1", SOURCE, 1000)
    with pytest.raises(ArtifactRefused):
        await held.read(DIGEST)
    await held.put("local", DIGEST, chunks(CONTENT))
    assert await held.read(DIGEST) == CONTENT
