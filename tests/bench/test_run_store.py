"""The run store beside raw sqlite3 in the same run: printed, and held against generous bounds only.

Goals: one by one at least 0.5 of raw sqlite3 with the same statement in BEGIN IMMEDIATE and COMMIT, 50 at once at least
6 times that; a second process that writes waits under 20 ms at p95; a step at 1000 steps costs at most 1.3 of one at 1.
`raw 50` is the ceiling of the second: raw sqlite3 with 50 of the statements in one transaction, without any of our work.
"""

import asyncio
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from emulator.d1 import Database, FileDriver, Statement, named
from emulator.runstore import Expectation, FencedRunStore, LifecyclePatch, Replacement, RunAddress, RunRow
from emulator.runstore.gateway import values_at
from emulator.runstore.queries import queries_for
from emulator.runstore.schema import reservations_schema
from emulator.workflow import APPLICATION_ID, MIGRATIONS, step_rows
from emulator.workflow.history import Step, StepKind, StepState
from host.model.time import timestamp

AT, LATER = timestamp(0), timestamp(1000)
RUNS = 50
SEQUENTIAL = 300
CONCURRENT = 2_000
ROUNDS = 5
_DONE_STEP = """
INSERT INTO workflow_steps
    (workflow_id, run_id, name, ord, kind, attempt, state, begun_at_ms, settled_at_ms, result)
VALUES (?, ?, ?, ?, 'do', 1, 'succeeded', 0, 0, ?)
"""
Action = Callable[[int], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Bench:
    """An open store over runs with snapshots of one size."""

    path: Path
    driver: FileDriver
    database: Database
    store: FencedRunStore
    rows: list[RunRow]


def address_of(number: int) -> RunAddress:
    return RunAddress("bench", f"run {number % RUNS}")


def snapshot_of(size_bytes: int, revision: int = 1, owner: str = "o") -> str:
    head = f'{{"status":"running","timestamp":1,"lifecycle":{{"version":1,"revision":{revision},"owner":"{owner}"}}'
    items = ",".join(f'{{"n":{n},"s":"{"x" * 40}"}}' for n in range(size_bytes // 55))
    return f'{head},"data":[{items}]}}'


async def open_bench(path: Path, size_bytes: int, steps: int = 1) -> Bench:
    driver = await FileDriver.open(
        path, application_id=APPLICATION_ID, migrations=(*MIGRATIONS, reservations_schema("bench_"))
    )
    database = Database(driver)
    text = snapshot_of(size_bytes)
    rows = [RunRow(each.workflow_id, each.run_id, None, text, AT, AT) for each in map(address_of, range(RUNS))]
    await database.batch([Statement("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?)", each.columns) for each in rows])
    for each in rows[:10]:
        await database.batch([done_step(each.address, n) for n in range(steps - 1)])
    return Bench(path, driver, database, FencedRunStore(database), rows)


def done_step(address: RunAddress, order: int) -> Statement:
    values = (address.workflow_id, address.run_id, f"done {order}", order, '"' + "r" * 2000 + '"')
    return Statement(_DONE_STEP, values)


@dataclass(frozen=True, slots=True)
class Rates:
    """Operations a second, each the best of some rounds.

    The rounds of the four take turns, because the disk is not equally fast all the time.
    """

    raw: float
    raw_in_fifties: float
    one_by_one: float
    at_once: float


async def measure(
    path: Path, statement: Callable[[int], Statement], action: Action, count: int = SEQUENTIAL, many: int = CONCURRENT
) -> Rates:
    """`statement` by raw sqlite3, then `action`, which runs the same through the store."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous = FULL")
    best = [0.0] * 4
    for _ in range(ROUNDS):
        found = [
            rate_raw(connection, [statement(number) for number in range(count)], 1),
            rate_raw(connection, [statement(number) for number in range(many)], RUNS),
            await rate_one_by_one(action, count),
            await rate_at_once(action, many),
        ]
        best = [max(pair) for pair in zip(best, found, strict=True)]
    connection.close()
    return Rates(*best)


def rate_raw(connection: sqlite3.Connection, statements: Sequence[Statement], size: int) -> float:
    """sqlite3 of the standard library with the same settings and statement, `size` of them to a transaction."""
    values = [{str(n): v for n, v in enumerate(each.values, 1)} for each in statements]
    began_s = time.perf_counter()
    for begin in range(0, len(statements), size):
        connection.execute("BEGIN IMMEDIATE")
        for number in range(begin, begin + size):
            connection.execute(statements[number].sql, values[number]).fetchall()
        connection.execute("COMMIT")
    return len(statements) / (time.perf_counter() - began_s)


async def rate_one_by_one(action: Action, count: int) -> float:
    began_s = time.perf_counter()
    for number in range(count):
        await action(number)
    return count / (time.perf_counter() - began_s)


async def rate_at_once(action: Action, count: int) -> float:
    """The same with 50 callers."""

    async def caller(lane: int) -> None:
        for number in range(count // RUNS):
            await action(number * RUNS + lane)

    began_s = time.perf_counter()
    await asyncio.gather(*(caller(lane) for lane in range(RUNS)))
    return count / (time.perf_counter() - began_s)


def report(title: str, rates: Rates) -> None:
    raw = rates.raw
    print(
        f"{title:18} raw {raw:6.0f}/s   one by one {rates.one_by_one:6.0f}/s ({rates.one_by_one / raw:4.2f})   "
        f"50 at once {rates.at_once:6.0f}/s ({rates.at_once / raw:5.2f})   "
        f"raw 50 {rates.raw_in_fifties:6.0f}/s ({rates.raw_in_fifties / raw:5.2f})"
    )
    assert rates.one_by_one > raw * 0.02 and rates.at_once > raw * 0.05


def touch_statement(number: int) -> Statement:
    values = {**values_at(address_of(number)), "updated_at": timestamp(number)}
    return named(queries_for("").touch, values)


def patch_statement(number: int) -> Statement:
    values = {
        **values_at(address_of(number)),
        "status": "running",
        "lifecycle_revision": 1,
        "expected_lifecycle": None,
        "lifecycle": '{"version":1,"revision":1,"owner":"o"}',
        "timestamp": "1",
        "updated_at": LATER,
    }
    return named(queries_for("").patch, values)


@pytest.mark.bench
@pytest.mark.parametrize("steps", [1, 100, 1000])
async def test_touches_and_patches(tmp_path: Path, steps: int) -> None:
    bench = await open_bench(tmp_path / "a.sqlite", 2_000, steps)
    patch = LifecyclePatch('{"version":1,"revision":1,"owner":"o"}', 1, LATER)

    async def touching(number: int) -> None:
        assert await bench.store.touch_run(address_of(number), timestamp(number))  # the same again writes no page

    async def patching(number: int) -> None:
        assert await bench.store.patch_run_lifecycle(address_of(number), Expectation("running", 1), patch)

    print()
    for title, action, statement in (("touch", touching, touch_statement), ("patch", patching, patch_statement)):
        report(f"{title}, {steps} steps", await measure(bench.path, statement, action))
    await bench.driver.close()


@pytest.mark.bench
@pytest.mark.parametrize(("size_bytes", "count"), [(2_000, SEQUENTIAL), (100_000, 100)])
async def test_replacements(tmp_path: Path, size_bytes: int, count: int) -> None:
    bench = await open_bench(tmp_path / "a.sqlite", size_bytes)
    texts = [snapshot_of(size_bytes, owner=owner) for owner in "pq"]
    now = list(bench.rows)

    def next_of(number: int) -> tuple[RunRow, RunRow]:
        row = now[number % RUNS]
        text = texts[row.snapshot == texts[0]]
        after = RunRow(row.workflow_id, row.run_id, None, text, AT, LATER)
        now[number % RUNS] = after
        return row, after

    async def replacing(number: int) -> None:
        row, after = next_of(number)
        assert await bench.store.replace_snapshot(row, Replacement(after.snapshot, LATER))

    def statement(number: int) -> Statement:
        row, after = next_of(number)
        values = {
            **values_at(row.address),
            "resource_id": None,
            "expected_snapshot": row.snapshot,
            "created_at": AT,
            "expected_updated_at": row.updated_at,
            "snapshot": after.snapshot,
            "updated_at": LATER,
        }
        return named(queries_for("").replace, values)

    print()
    rates = await measure(bench.path, statement, replacing, count, count * 5)
    report(f"replace, {size_bytes // 1000} kB", rates)
    await bench.driver.close()


@pytest.mark.bench
async def test_a_step_costs_the_same_however_long_the_history(tmp_path: Path) -> None:
    medians_ms: dict[int, float] = {}
    for steps in (1, 100, 1000):
        bench = await open_bench(tmp_path / f"{steps}.sqlite", 2_000, steps)
        result = '"' + "r" * 2000 + '"'
        times_s: list[float] = []
        for number in range(SEQUENTIAL):
            address = address_of(number % 10)
            step = Step(f"new {number}", steps + number, StepKind.DO, StepState.PENDING, 1)
            await bench.database.batch([step_rows.insert_pending(address, "o", step, 0)])
            began_s = time.perf_counter()
            settle = step_rows.settle_effect(address, "o", step, StepState.SUCCEEDED, result, 0)
            [settled] = await bench.database.batch([settle])
            times_s.append(time.perf_counter() - began_s)
            assert settled.is_applied
        medians_ms[steps] = statistics.median(times_s) * 1000
        await bench.driver.close()
    shown = ", ".join(f"{steps}: {median:.2f} ms" for steps, median in medians_ms.items())
    print(f"\na step's commit by history: {shown} ({medians_ms[1000] / medians_ms[1]:.2f}, goal 1.3)")
    assert medians_ms[1000] < medians_ms[1] * 5


_BESIDE = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=20)
connection.execute("CREATE TABLE IF NOT EXISTS beside (n)")
for n in range(200):
    time.sleep(0.005)
    began = time.perf_counter()
    connection.execute("BEGIN IMMEDIATE")
    print(time.perf_counter() - began)
    connection.execute("INSERT INTO beside VALUES (?)", (n,))
    connection.execute("COMMIT")
"""
_OURS = _BESIDE.replace('connection.execute("BEGIN IMMEDIATE")', "poll_lock(connection)").replace(
    "for n in",
    'connection.execute("PRAGMA busy_timeout = 0")\nfrom tests.bench.test_run_store import poll_lock\nfor n in',
)


def poll_lock(connection: sqlite3.Connection) -> None:
    """Take the lock as `host.sqlite` does: look again every half millisecond."""
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError:
            time.sleep(0.0005)


async def waits_beside(path: Path, script: str, action: Action) -> Sequence[float]:
    """Seconds that a second process waited for the lock while 50 callers write here."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, str(path), stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
    )
    told = asyncio.create_task(process.communicate())
    number = 0
    while not told.done():
        await asyncio.gather(*(action(number + lane) for lane in range(RUNS)))
        number += RUNS
    output, _ = await told
    assert process.returncode == 0
    return sorted(float(line) for line in output.split())


@pytest.mark.bench
async def test_a_second_process_gets_its_turn(tmp_path: Path) -> None:
    bench = await open_bench(tmp_path / "a.sqlite", 2_000)

    async def touching(number: int) -> None:
        await bench.store.touch_run(address_of(number), timestamp(number))

    print()
    for title, script in (("our own busy handler", _OURS), ("sqlite3's busy handler", _BESIDE)):
        waits_s = await waits_beside(bench.path, script, touching)
        p95_ms = waits_s[int(len(waits_s) * 0.95)] * 1000
        print(f"a second process beside 50 callers waits, {title}: p95 {p95_ms:.1f} ms (goal 20)")
    await bench.driver.close()
