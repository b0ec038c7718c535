"""Custody of content-addressed bytes: the ArtifactPort of this host. Serves what is held, and asks its sources for the
rest. Knows no network.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Protocol

from emulator.artifacts import rows
from emulator.artifacts.files import MAX_ARTIFACT_BYTES, ContentFiles
from host.ports import ArtifactRefused, ArtifactSource, HeldArtifact
from host.sqlite import Database, DatabaseFull, Transaction

HELD_URL_PREFIX = "https://held.takohost.invalid/sha256/"


def held_url(digest: str) -> str:
    """The spelling of an artifact that has no place but this host."""
    return HELD_URL_PREFIX + digest


class Sources(Protocol):
    """Where bodies come from that nobody has uploaded."""

    def fetch(self, url: str, max_bytes: int) -> AsyncGenerator[bytes, None]:
        """The body as it comes, at most `max_bytes`. Raises `ArtifactRefused` (WB-06, WB-07)."""


class ArtifactCustody:
    """Files and rows together. A row never names bytes that are not durable; a file without a row is swept.

    The lock keeps an upload and a release of one digest apart between their file and row halves; one host
    owns a state directory, so a lock of this process is enough.
    """

    def __init__(self, database: Database, files: ContentFiles, sources: Sources | None) -> None:
        self._database = database
        self._files = files
        self._sources = sources
        self._pairing = asyncio.Lock()
        self._looking = asyncio.Lock()
        self._suspects: set[str] = set()
        self._lost: frozenset[str] = frozenset()
        self.on_return: Callable[[], None] = lambda: None  # called when bytes that were lost were put again

    @classmethod
    async def open(cls, database: Database, folder: Path, sources: Sources | None = None) -> "ArtifactCustody":
        """Open `<state>/artifacts`, sweeping what a killed process left between file and row.

        Without `sources` nothing is fetched: only what was uploaded can be held.
        """
        custody = cls(database, ContentFiles(folder), sources)
        await asyncio.to_thread(custody._files.prepare)
        await custody._sweep()
        return custody

    async def put(self, principal: str, digest: str, stream: AsyncIterator[bytes]) -> HeldArtifact:
        """Take an upload for `principal`, at most 128 MiB. Raises `ArtifactTooLarge`, `DigestMismatch`."""
        incoming = await self._files.receive(digest, stream, MAX_ARTIFACT_BYTES)
        size_bytes = incoming.size_bytes
        try:
            async with self._pairing:
                await asyncio.to_thread(incoming.keep)
                await self._name(digest, lambda t: rows.grant(t, principal, digest, size_bytes))
        finally:
            incoming.discard()
        if digest in self._lost:
            self._suspects.add(digest)
            self.on_return()
        return HeldArtifact(digest, size_bytes)

    async def withdraw(self, principal: str, digest: str) -> bool:
        """Take an upload back; bytes that nobody else holds go. Says whether there was one."""
        async with self._pairing:
            was_there = await self._database.write(lambda t: rows.revoke(t, principal, digest))
            await self._drop_unheld()
        return was_there

    async def hold(self, principal: str, holder_uid: str, source: ArtifactSource, max_bytes: int) -> HeldArtifact:
        """Any url whose digest the principal holds is served from here, another is fetched (WB-06).

        Raises `ArtifactRefused`.
        """
        digest = source.sha256
        async with self._pairing:
            size_bytes = await self._database.read(lambda t: rows.size_for(t, principal, digest))
            if size_bytes is not None:
                if size_bytes > max_bytes:
                    raise ArtifactRefused(f"sha256 {digest} has {size_bytes} bytes, more than {max_bytes}")
                await self._files.measure(digest)
                await self._database.write(lambda t: rows.hold(t, holder_uid, digest, principal))
                return HeldArtifact(digest, size_bytes)
        return await self._fetch(principal, holder_uid, source, max_bytes)

    async def read(self, sha256: str) -> bytes:
        """The held bytes, verified again. Raises `ArtifactRefused` when they are gone or damaged (WB-11)."""
        try:
            return await self._files.read(sha256)
        except ArtifactRefused:
            self._suspects.add(sha256)
            raise

    async def lost_holders(self) -> frozenset[str]:
        """Uids of the Resources that hold bytes which are gone or damaged now (WB-11).

        Compares sizes, which is cheap; whole files are read only of what was found lost before, or met since.
        """
        async with self._looking:
            sizes, known = await self._database.read(lambda t: (rows.sizes(t), rows.lost(t)))
            suspects = (known | self._suspects) & sizes.keys()
            lost = await asyncio.to_thread(self._misfits, sizes)
            for digest in sorted(suspects - lost):
                try:
                    await self._files.read(digest)
                except ArtifactRefused:
                    lost.add(digest)
            self._suspects -= suspects
            self._lost = frozenset(lost)
            if lost != known:
                await self._database.write(lambda t: rows.replace_lost(t, sorted(lost)))
            return await self._database.read(rows.holders_of_lost)

    @property
    def lost_digests(self) -> frozenset[str]:
        """What the last look found gone or damaged."""
        return self._lost

    def _misfits(self, sizes: Mapping[str, int]) -> set[str]:
        """Digests whose file is not of its size, or not there. Blocking."""
        self._files.restore_folder()
        return {digest for digest, size_bytes in sizes.items() if self._files.size_of(digest) != size_bytes}

    async def digests(self) -> tuple[str, ...]:
        """Every digest that is held, whoever holds it."""
        return await self._database.read(rows.digests)

    async def release(self, holder_uid: str) -> None:
        """Give up the holds of one Resource (WB-08)."""
        async with self._pairing:
            await self._database.write(lambda t: rows.release(t, holder_uid))
            await self._drop_unheld()

    async def _fetch(self, principal: str, holder_uid: str, source: ArtifactSource, max_bytes: int) -> HeldArtifact:
        """Bytes that the principal does not hold, as if nobody did: a matching digest alone is no permission."""
        digest = source.sha256
        if self._sources is None or source.url.startswith(HELD_URL_PREFIX):
            raise ArtifactRefused(
                f"sha256 {digest} is not held for this principal: PUT it to /v1/artifacts/sha256/{digest} on the "
                "management listener, or name a source that this host may fetch it from"
            )
        async with aclosing(self._sources.fetch(source.url, max_bytes)) as body:
            incoming = await self._files.receive(digest, body, max_bytes)
        size_bytes = incoming.size_bytes
        try:
            async with self._pairing:
                await asyncio.to_thread(incoming.keep)
                await self._name(digest, lambda t: rows.take(t, holder_uid, digest, principal, size_bytes))
        finally:
            incoming.discard()
        return HeldArtifact(digest, size_bytes)

    async def _name(self, digest: str, write: Callable[[Transaction], None]) -> None:
        """Write the row of a kept file. Without room for it the file goes again, unless it was held before."""
        try:
            await self._database.write(write)
        except DatabaseFull:
            if await self._database.read(lambda t: rows.unknown_among(t, (digest,))):
                await asyncio.to_thread(self._files.remove, digest)
            raise

    async def _drop_unheld(self) -> None:
        dropped = await self._database.write(rows.drop_unheld)
        for digest in dropped:
            await asyncio.to_thread(self._files.remove, digest)

    async def _sweep(self) -> None:
        present = await asyncio.to_thread(lambda: tuple(self._files.digests()))
        for digest in await self._database.read(lambda t: rows.unknown_among(t, present)):
            await asyncio.to_thread(self._files.remove, digest)
