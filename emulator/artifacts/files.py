"""Files `<root>/sha256/ab/<digest>`: verified while written, durable once named. Knows no holder."""

import asyncio
import hashlib
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from host.ports import ArtifactRefused

MAX_ARTIFACT_BYTES = 128 * 1024 * 1024
_BLOCK_BYTES = 1024 * 1024
_HEX = frozenset("0123456789abcdef")


class ArtifactTooLarge(ArtifactRefused):
    """The body passed the limit; reading stopped there (WB-06)."""


class DigestMismatch(ArtifactRefused):
    """The body is not what its digest says; nothing was kept (WB-07)."""


def is_digest(text: str) -> bool:
    """Whether `text` is 64 lower-case hex digits (WB-01)."""
    return len(text) == 64 and _HEX.issuperset(text)


class ContentFiles:
    """The files of one state directory. A file that has its final name is whole, verified and durable."""

    def __init__(self, root: Path) -> None:
        self._root = root / "sha256"
        self._incoming = root / "incoming"

    def prepare(self) -> None:
        """Make the directories and drop what an earlier process left half written. Blocking."""
        self._root.mkdir(parents=True, exist_ok=True)
        self._incoming.mkdir(exist_ok=True)
        for leftover in self._incoming.iterdir():
            leftover.unlink(missing_ok=True)

    def path(self, digest: str) -> Path:
        """Where the bytes of `digest` lie, held or not. Raises `ValueError` for anything but a digest."""
        if not is_digest(digest):
            raise ValueError("a digest is 64 lower-case hex digits")
        return self._root / digest[:2] / digest

    def digests(self) -> Iterator[str]:
        """Every digest that has a file. Blocking."""
        for folder in self._root.iterdir():
            yield from (entry.name for entry in folder.iterdir() if is_digest(entry.name))

    async def receive(self, digest: str, stream: AsyncIterator[bytes], max_bytes: int) -> "IncomingFile":
        """Write `stream` beside the store and verify it. Raises `ArtifactTooLarge`, `DigestMismatch`."""
        incoming = IncomingFile(self.path(digest), self._incoming)
        try:
            await incoming.fill(stream, digest, max_bytes)
        except BaseException:
            incoming.discard()
            raise
        return incoming

    async def read(self, digest: str) -> bytes:
        """The bytes, checked again. Raises `ArtifactRefused` when they are gone or damaged (WB-11)."""
        return await asyncio.to_thread(self._read_verified, digest)

    async def measure(self, digest: str) -> int:
        """Size in bytes of a file whose digest was checked just now. Raises as `read`."""
        return len(await self.read(digest))

    def restore_folder(self) -> None:
        """Make the store's folder again if it is gone: whoever serves from it could not even start. Blocking."""
        self._root.mkdir(parents=True, exist_ok=True)

    def size_of(self, digest: str) -> int | None:
        """Size in bytes as the file system says; none when there is no such file. Blocking."""
        try:
            return self.path(digest).stat().st_size
        except OSError:
            return None

    def remove(self, digest: str) -> None:
        """Unlink; absent is fine. Blocking."""
        self.path(digest).unlink(missing_ok=True)

    def _read_verified(self, digest: str) -> bytes:
        try:
            content = self.path(digest).read_bytes()
        except OSError as error:
            raise ArtifactRefused(f"the held bytes of sha256 {digest} are gone") from error
        if hashlib.sha256(content).hexdigest() != digest:
            raise ArtifactRefused(f"the held bytes of sha256 {digest} are damaged")
        return content


class IncomingFile:
    """A temporary file on its way to a digest's name; `keep` or `discard` ends it."""

    def __init__(self, target: Path, folder: Path) -> None:
        self._target = target
        handle, name = tempfile.mkstemp(dir=folder)
        self._file = os.fdopen(handle, "wb", buffering=0)
        self._hasher = hashlib.sha256()
        self._path = Path(name)
        self.size_bytes = 0

    async def fill(self, stream: AsyncIterator[bytes], digest: str, max_bytes: int) -> None:
        """Write and hash the stream; the file is synced when this returns."""
        async for block in _blocks(stream):
            self.size_bytes += len(block)
            if self.size_bytes > max_bytes:
                raise ArtifactTooLarge(f"the body is larger than {max_bytes} bytes")
            await asyncio.to_thread(self._append, block)
        actual = self._hasher.hexdigest()
        if actual != digest:
            raise DigestMismatch(f"the body has sha256 {actual}, not {digest}")
        await asyncio.to_thread(self._sync)

    def keep(self) -> None:
        """Give the file its name and make that durable. Blocking."""
        self._target.parent.mkdir(exist_ok=True)
        self._path.replace(self._target)
        for folder in (self._target.parent, self._target.parent.parent):
            _sync_folder(folder)

    def discard(self) -> None:
        """Drop the file; safe after `keep`. Blocking, short."""
        self._file.close()
        self._path.unlink(missing_ok=True)

    def _append(self, block: bytes) -> None:
        self._hasher.update(block)
        view = memoryview(block)
        while view:
            view = view[self._file.write(view) or 0 :]

    def _sync(self) -> None:
        os.fsync(self._file.fileno())
        self._file.close()


async def _blocks(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same bytes in blocks worth a thread hop each."""
    pending = bytearray()
    async for chunk in stream:
        pending += chunk
        if len(pending) >= _BLOCK_BYTES:
            yield bytes(pending)
            pending.clear()
    if pending:
        yield bytes(pending)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
