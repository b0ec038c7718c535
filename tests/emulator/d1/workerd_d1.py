"""The second driver, for tests only: statements run on workerd's own D1, to show that ours is D1-like."""

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from emulator.d1 import ExecResult, Result, Statement
from emulator.d1.wire import decode_value, encode_value
from host.sqlite import (
    AnswerLost,
    ConstraintFailed,
    DatabaseError,
    LimitExceeded,
    NotAuthorized,
    StatementRefused,
)

HERE = Path(__file__).parent
TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT GLOB '_cf_*' AND name NOT GLOB 'sqlite_*'"
CLASSES: tuple[tuple[str, type[DatabaseError]], ...] = (
    ("not authorized", NotAuthorized),
    ("To execute a transaction", NotAuthorized),
    ("constraint failed", ConstraintFailed),
    ("cannot store", ConstraintFailed),
    ("too many", LimitExceeded),
    ("too big", LimitExceeded),
    ("too large", LimitExceeded),
    ("too complex", LimitExceeded),
    ("too long", LimitExceeded),
    ("variable number must be", LimitExceeded),
)


@contextmanager
def serve_d1(workerd: Path, directory: Path) -> Iterator[str]:
    """Run workerd with a D1 database in `directory`; yields its address."""
    reader, writer = os.pipe()
    command = [workerd, "serve", HERE / "d1.capnp", "--experimental", f"--control-fd={writer}"]
    places = [f"--directory-path=files={directory}", "--socket-addr=http=127.0.0.1:0"]
    process = subprocess.Popen([str(each) for each in (*command, *places)], pass_fds=[writer], stdin=subprocess.DEVNULL)
    os.close(writer)
    try:
        with os.fdopen(reader) as told:
            port = json.loads(told.readline())["port"]
            yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


class WorkerdDriver:
    """`emulator.d1.Driver` over HTTP. A batch is one transaction; batches run in the order of the calls."""

    def __init__(self, address: str) -> None:
        self._client = httpx.AsyncClient(base_url=address, timeout=30, trust_env=False)
        self._turn = asyncio.Lock()

    async def close(self) -> None:
        await self._client.aclose()

    def submit(self, statements: Sequence[Statement], *, is_urgent: bool = False) -> "asyncio.Future[list[Result]]":
        return asyncio.shield(asyncio.ensure_future(self._in_turn(list(statements))))

    async def query(self, statements: Sequence[Statement]) -> list[Result]:
        return await self._batch(statements)

    async def run_script(self, sql: str) -> ExecResult:
        told = await self._ask("exec", sql)
        return ExecResult(told["count"], told["duration"])

    async def drop_tables(self) -> None:
        """Leave the database as a new one."""
        [found] = await self._batch([Statement(TABLES)])
        for (name,) in found.rows:
            await self._batch([Statement(f'DROP TABLE "{name!s}"')])

    async def _in_turn(self, statements: list[Statement]) -> list[Result]:
        async with self._turn:
            return await self._batch(statements)

    async def _batch(self, statements: Sequence[Statement]) -> list[Result]:
        wire = [[each.sql, [encode_value(value) for value in each.values]] for each in statements]
        return [
            Result(
                rows=tuple(tuple(decode_value(value) for value in row) for row in told["rows"]),
                changes=told["changes"],
                columns=tuple(told["columns"]),
                last_row_id=told["lastRowId"],
                duration_ms=told["duration"],
            )
            for told in await self._ask("batch", wire)
        ]

    async def _ask(self, kind: str, argument: object) -> Any:
        try:
            response = await self._client.post("/", content=json.dumps([kind, argument]))
            verdict, answer = response.json()
        except (httpx.HTTPError, ValueError) as error:
            raise AnswerLost(f"workerd did not answer: {error}") from error
        if verdict == "ok":
            return answer
        raise next((each for part, each in CLASSES if part in answer), StatementRefused)(answer)
