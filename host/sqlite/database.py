"""One SQLite file: a writer that commits in groups and a reader on snapshots, each in a thread of its own."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import aiosqlite

from host.sqlite.confinement import ConfinedConnection, Confinement
from host.sqlite.connection import check_json_rules, connect, run_whole
from host.sqlite.errors import DatabaseError
from host.sqlite.group import Failed, Result, Work, run_group, run_read
from host.sqlite.migration import migrate
from host.sqlite.transaction import Transaction

T = TypeVar("T")

_LARGEST_GROUP = 64
"""Units in one commit: enough that its cost hardly shows, few enough that the next group need not wait long."""
_LINGER_S = 0.002
"""Real time that the writer's thread waits for another unit before it gives the turn back: who writes one unit after
the other meets it there, two turns of the loop earlier."""
_Queue = deque[tuple[Work, asyncio.Future[Any]]]


class Database:
    """Durable units of work over one file. Open with `Database.open`, use from one event loop."""

    def __init__(self, path: Path, writer: aiosqlite.Connection, reader: aiosqlite.Connection) -> None:
        self.path = path
        self._writer = writer
        self._reader = reader
        self._queue: _Queue = deque()
        self._urgent: _Queue = deque()
        self._wake = asyncio.Event()
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._is_lingering = False
        self._is_closing = False
        self._loop = asyncio.get_running_loop()
        self._committer = asyncio.create_task(self._commit_groups(), name=f"commit {path.name}")

    @classmethod
    async def open(
        cls, path: Path, *, application_id: int, migrations: Sequence[str], confinement: Confinement | None = None
    ) -> "Database":
        """Open or make the file at the newest schema; a refused file is untouched. Raises `DatabaseError`.

        With a confinement, units of work run only what it allows; the migrations are free of it.
        """
        writer = await connect(path, read_only=False)
        try:

            def prepare(connection: ConfinedConnection) -> None:
                check_json_rules(connection)
                migrate(connection, path, application_id, migrations)

            await run_whole(writer, prepare)
            reader = await connect(path, read_only=True)
            if confinement is not None:
                for each in (writer, reader):
                    await run_whole(each, lambda connection: connection.confine(confinement))
        except BaseException:
            await writer.close()
            raise
        return cls(path, writer, reader)

    def submit(self, work: Callable[[Transaction], T], *, is_urgent: bool = False) -> "asyncio.Future[T]":
        """Queue a unit of work at once, in order of the calls; the future ends when the commit has returned.

        An urgent one waits for no other, so it must not build on any: groups are cut short for it. A unit may run more
        than once (see `run_group`) and must have no effect outside the database.
        """
        if self._is_closing:
            raise DatabaseError(f"{self.path} is closed")
        future: asyncio.Future[T] = self._loop.create_future()
        (self._urgent if is_urgent else self._queue).append((work, future))
        self._call_writer()
        return future

    def _call_writer(self) -> None:
        if self._is_lingering:
            self._is_lingering = False  # one ring is enough
            self._bell.put(None)
        self._wake.set()

    async def write(self, work: Callable[[Transaction], T]) -> T:
        """Run a unit of work and return its value once it is durable. What it raises is raised here.

        A cancelled caller leaves the unit queued: it is committed all the same.
        """
        return await self.submit(work)

    async def read(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` on a snapshot of the committed state; it sees every write that was awaited before."""
        value: T = await run_whole(self._reader, lambda connection: run_read(connection, work))
        return value

    async def close(self) -> None:
        """Commit what is queued, then close the file."""
        if self._is_closing:
            return
        self._is_closing = True
        self._call_writer()
        await self._committer
        await self._reader.close()
        await self._writer.close()

    async def _commit_groups(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._has_work:
                await run_whole(self._writer, self._commit_what_comes)
            if self._is_closing:
                return

    @property
    def _has_work(self) -> bool:
        return bool(self._urgent or self._queue)

    def _is_urgent(self) -> bool:
        return bool(self._urgent)

    def _commit_what_comes(self, connection: ConfinedConnection) -> None:
        """In the writer's thread: one group after the other, until no unit has come for a while."""
        while self._has_work or self._linger():
            queue = self._urgent or self._queue
            members = [queue.popleft() for _ in range(min(len(queue), _LARGEST_GROUP))]
            try:
                results: Sequence[Result] = run_group(connection, [work for work, _ in members], self._is_urgent)
            except Exception as error:
                results = [Failed(error) for _ in members]
            queue.extendleft(reversed(members[len(results) :]))
            self._loop.call_soon_threadsafe(_deliver, [future for _, future in members], results)

    def _linger(self) -> bool:
        """Whether another unit has come."""
        self._is_lingering = True
        try:
            # A unit queued before the mark rings no bell: it is seen here.
            if not self._has_work and not self._is_closing:
                self._bell.get(timeout=_LINGER_S)
        except Empty:
            pass
        finally:
            self._is_lingering = False
        return self._has_work


def _deliver(futures: Sequence[asyncio.Future[Any]], results: Sequence[Result]) -> None:
    """Tell the callers that have a result; one that left has cancelled its future."""
    for future, result in zip(futures, results, strict=False):
        if future.done():
            continue
        if isinstance(result, Failed):
            future.set_exception(result.error)
        else:
            future.set_result(result.value)
