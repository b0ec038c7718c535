"""One of the processes that hammer a file through the store: `hammer.py FILE LOG NUMBER OPERATIONS SEED`.

Three clients at once, each one operation after the other on what it read last; every call and answer is logged.
"""

import asyncio
import json
import random
import sys
import time
from dataclasses import astuple
from pathlib import Path

from emulator.d1 import Database, FileDriver, Statement
from emulator.runstore import (
    Expectation,
    FencedRunStore,
    InitialAdmission,
    LifecyclePatch,
    Replacement,
    RunAddress,
    RunRow,
    SnapshotWrite,
)
from emulator.runstore.errors import RunNotAdmittedError, RunSettledConflictError
from emulator.runstore.rules import lifecycle_of, revision, scalar
from emulator.runstore.schema import migrations
from emulator.runstore.texts import child
from host.model.time import timestamp
from tests.emulator.runstore.model import Event, Kind

APPLICATION_ID = 0x68616D6D
CLIENTS = 3
ROWS = 8
CREATED = timestamp(0)
KINDS: tuple[Kind, ...] = ("touch", "patch", "patch", "replace", "persist", "persist", "admit", "delete")


def address_of(row: int) -> RunAddress:
    return RunAddress("hammered", f"run {row}")


class Client:
    """Acts on what it read last, which others may have changed since."""

    def __init__(self, database: Database, number: int, seed: int) -> None:
        self._database = database
        self._store = FencedRunStore(database)
        self._number = number
        self._random = random.Random(f"{seed} {number}")
        self._count = 0
        self._read: dict[int, RunRow] = {}
        self.events: list[Event] = []

    async def run(self, operations: int) -> None:
        for _ in range(operations):
            row = self._random.randrange(ROWS)
            await self._act(row, "read" if self._random.random() < 0.3 else self._random.choice(KINDS))

    async def _act(self, row: int, kind: Kind) -> None:
        read = self._read.get(row)
        if kind in ("patch", "replace") and read is None:
            kind = "read"
        self._count += 1
        texts = self._texts(kind, read)
        called_ns = time.monotonic_ns()
        answer = await self._call(row, kind, texts)
        self.events.append(Event(self._number, row, kind, texts, answer, called_ns, time.monotonic_ns()))

    def _texts(self, kind: Kind, read: RunRow | None) -> tuple[str, ...]:
        now = timestamp(self._number * 1_000_000_000 + self._count)
        mark = f"{self._number}.{self._count}"
        stored = None if read is None else lifecycle_of(read.snapshot)
        known = int(revision(stored) or 0)
        run = mark if read is None else str(scalar(child(read.snapshot, "run")))
        match kind:
            case "touch":
                return (now,)
            case "patch" if read is not None:
                status = str(scalar(child(read.snapshot, "status")))
                return status, str(known), str(read.lifecycle_text), self._lifecycle(known + 1, mark), now
            case "replace" if read is not None:
                new = f"{run}r" if self._random.random() < 0.5 else run
                snapshot = self._snapshot(new, self._lifecycle(known + 1, mark, 0 if new == run else None), mark)
                return read.snapshot, read.updated_at, snapshot, now
            case "persist":
                later = self._random.choice((-1, 0, 0, 1))
                return self._snapshot(run, self._lifecycle(max(known + later, 0), mark), mark), now
            case "admit":
                return (
                    f'{{"status":"pending","timestamp":1,"lifecycle":{{"revision":1,"m":"{mark}"}},"run":"{mark}"}}',
                    now,
                )
        return ()

    def _lifecycle(self, number: int, mark: str, settles: float | None = 0.1) -> str:
        """With `settles` 0 always settled, with None never."""
        is_end = settles is not None and (settles == 0 or self._random.random() < settles)
        end = f',"terminal":{{"status":"cancelled","transitionedAt":"{mark}"}}' if is_end else ""
        intent = ',"transitionIntent":{"to":"cancelled"}' if self._random.random() < 0.2 else ""
        return f'{{"revision":{number},"m":"{mark}"{end}{intent}}}'

    def _snapshot(self, run: str, lifecycle: str, mark: str) -> str:
        return f'{{"status":"running","timestamp":1,"lifecycle":{lifecycle},"run":"{run}","step":"{mark}"}}'

    async def _call(self, row: int, kind: Kind, texts: tuple[str, ...]) -> str:
        address, store = address_of(row), self._store
        match kind:
            case "read":
                found = await store.read_snapshot(address)
                if found is None:
                    self._read.pop(row, None)
                    return "none"
                self._read[row] = found
                return f"{found.snapshot}\n{found.updated_at}"
            case "touch":
                return str(await store.touch_run(address, texts[0]))
            case "patch":
                status, known, lifecycle, new, now = texts
                expected = Expectation(status, int(known), lifecycle)
                return str(await store.patch_run_lifecycle(address, expected, LifecyclePatch(new, 1, now))).lower()
            case "replace":
                snapshot, updated_at, new, now = texts
                expected_row = RunRow(address.workflow_id, address.run_id, None, snapshot, CREATED, updated_at)
                return str(await store.replace_snapshot(expected_row, Replacement(new, now))).lower()
            case "delete":
                sql = "DELETE FROM runs WHERE workflow_id = ? AND run_id = ?"
                await self._database.batch([Statement(sql, (address.workflow_id, address.run_id))])
                return "done"
            case _:
                return await self._write(kind, SnapshotWrite(address, texts[0], CREATED, texts[1]))

    async def _write(self, kind: Kind, write: SnapshotWrite) -> str:
        try:
            if kind == "persist":
                await self._store.persist_snapshot(write)
            else:
                await self._store.with_initial_admission(
                    InitialAdmission(write.address), lambda: self._store.persist_snapshot(write)
                )
        except RunSettledConflictError:
            return "settled"
        except RunNotAdmittedError:
            return "not admitted"
        return "done"


async def hammer(file: Path, number: int, operations: int, seed: int) -> list[Event]:
    """All events of this process's clients."""
    driver = await FileDriver.open(file, application_id=APPLICATION_ID, migrations=migrations())
    clients = [Client(Database(driver), number * CLIENTS + each, seed) for each in range(CLIENTS)]
    await asyncio.gather(*(client.run(operations // CLIENTS) for client in clients))
    await driver.close()
    return [event for client in clients for event in client.events]


def main() -> None:
    file, log, number, operations, seed = sys.argv[1:]
    events = asyncio.run(hammer(Path(file), int(number), int(operations), int(seed)))
    Path(log).write_text("\n".join(json.dumps(astuple(event)) for event in events), "utf-8")


if __name__ == "__main__":
    main()
