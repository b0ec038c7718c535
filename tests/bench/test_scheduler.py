"""A hundred thousand sleepers: what they cost, and how late those that fall due are marked and started. Printed only."""

import asyncio
import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from emulator.contexts import ContextStart, RunningContext
from emulator.d1 import Result, Statement
from emulator.d1.database import Preparable
from emulator.workflow.marking import mark
from host.model.time import ControlledClock
from tests.emulator.workflow.hosts import START_MS, WORKFLOW, Host, boot
from tests.emulator.workflow.isolates import Document, Step

SLEEPERS = 100_000
RATES = (100, 300, 1000)
SECONDS = 2
FAR_MS = 30 * 86_400_000
EMPTY = 300

_RUNS = """
INSERT INTO runs (workflow_id, run_id, resource_id, snapshot, created_at, updated_at)
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?2 - 1)
SELECT ?1, printf('s%06d', i), NULL,
    json_object('status', 'sleeping', 'timestamp', ?3, 'lifecycle', json_object('version', 1, 'revision', 1, 'owner', 'o')),
    ?3, ?3 FROM n
"""
_STEPS = """
INSERT INTO workflow_steps (workflow_id, run_id, name, ord, kind, settings, attempt, state, due_at_ms, begun_at_ms)
SELECT workflow_id, run_id, 'nap', 1, 'sleep', '{}', 1, 'pending', ?1 + rowid, ?2 FROM runs
"""
_DUE = """
INSERT INTO workflow_due (workflow_id, run_id, due_at_ms, expires_at_ms)
SELECT workflow_id, run_id, due_at_ms, ?1 FROM workflow_steps ORDER BY due_at_ms
"""
"""The rows that creating and putting to sleep would have left; made at once, for speed."""

_MARK = mark(0, 0)[-1].sql


async def ends(params: Document, step: Step) -> Document:
    return None


async def asleep(folder: Path, clock: ControlledClock) -> Host:
    """A host beside whose start 100 000 instances already slept."""
    host = await boot(folder / "e.sqlite", clock, max_contexts=1000, starts=False, Flow=ends)
    await host.deploy("v1")
    at = "2026-01-01T00:00:00.000Z"
    statements = [
        Statement(_RUNS, (WORKFLOW, SLEEPERS, at)),
        Statement(_STEPS, (START_MS + FAR_MS, START_MS)),
        Statement(_DUE, (START_MS + 31_536_000_000,)),
    ]
    await host.database.batch(statements)
    await host.close()
    return await boot(folder / "e.sqlite", clock, max_contexts=1000, Flow=ends)


def resident_kib() -> int:
    """Memory of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


class Lags:
    """Notes how long after its due instant each instance is marked, and how long after it its context is started.

    Both happen in due order, so that the n-th to be marked is the n-th that fell due."""

    def __init__(self, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
        self._marks: list[tuple[int, float]] = []
        self._starts: list[tuple[int, float]] = []
        self._began_s = 0.0
        submit, start = host.database.submit, host.runners.start

        def noted_submit(statements: Sequence[Preparable]) -> "asyncio.Future[list[Result]]":
            batch = submit(statements)
            if isinstance(statements[-1], Statement) and statements[-1].sql == _MARK:
                batch.add_done_callback(self._note_mark)
            return batch

        async def noted_start(start_of: ContextStart, *callbacks: Any) -> RunningContext:
            self._starts.append((int(start_of.instance_id[1:]), self.elapsed_s()))
            return await start(start_of, *callbacks)

        monkeypatch.setattr(host.database, "submit", noted_submit)
        monkeypatch.setattr(host.runners, "start", noted_start)

    def begin(self) -> None:
        self._marks.clear()
        self._starts.clear()
        self._began_s = time.monotonic()

    def elapsed_s(self) -> float:
        return time.monotonic() - self._began_s

    def _note_mark(self, batch: "asyncio.Future[list[Result]]") -> None:
        self._marks.append((batch.result()[-1].changes, self.elapsed_s()))

    def marks_ms(self, rate: int) -> list[float]:
        at_s = [elapsed_s for count, elapsed_s in self._marks for _ in range(count)]
        return [(elapsed_s - number / rate) * 1000 for number, elapsed_s in enumerate(at_s, 1)]

    def starts_ms(self, rate: int) -> list[float]:
        first = min(order for order, _ in self._starts)
        return [(elapsed_s - (order - first + 1) / rate) * 1000 for order, elapsed_s in self._starts]

    @property
    def is_in_order(self) -> bool:
        orders = [order for order, _ in self._starts]
        return orders == sorted(orders)


def late(what: str, found: list[float]) -> str:
    return (
        f"{what} {len(found)} late by median {statistics.median(found):.0f} ms, "
        f"p99 {sorted(found)[int(len(found) * 0.99)]:.0f} ms, at most {max(found):.0f} ms"
    )


async def capacity(host: Host) -> float:
    """Contexts that do nothing, a second, when all of them are queued at once."""
    began_s = time.monotonic()
    await asyncio.gather(*(host.create(f"e{number}") for number in range(EMPTY)))
    await host.idle()
    return EMPTY / (time.monotonic() - began_s)


@pytest.mark.bench
@pytest.mark.req("DW-35")
async def test_sleepers_cost_nothing_and_are_taken_in_due_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ControlledClock.frozen(START_MS)
    before_kib = resident_kib()
    host = await asleep(tmp_path, clock)
    await host.idle()
    grown = (resident_kib() - before_kib) * 1024 / SLEEPERS
    print(f"\n{SLEEPERS} sleeping instances: the process grew by {grown:.0f} bytes each (caches of SQLite included)")
    print(f"capacity for empty contexts: {await capacity(host):.0f}/s (load {os.getloadavg()[0]:.1f})")
    lags = Lags(host, monkeypatch)
    position_ms = START_MS + FAR_MS
    for rate in RATES:
        lags.begin()
        position_ms = await _pass(host, clock, position_ms, rate, lags)
        print(f"{rate:>5}/s due for {SECONDS} s: {late('marked', lags.marks_ms(rate))}")
        print(
            f"{'':21}{late('started', lags.starts_ms(rate))}; "
            f"{'in due order' if lags.is_in_order else 'NOT in due order'}; done after {lags.elapsed_s():.1f} s"
        )
    await host.close()


async def _pass(host: Host, clock: ControlledClock, from_ms: int, rate: int, lags: Lags) -> int:
    """Let one instance more fall due `rate` times a second of real time: sleepers are a contract millisecond apart."""
    reached = 0
    while reached < rate * SECONDS:
        reached = min(int(lags.elapsed_s() * rate), rate * SECONDS)
        clock.move_to(max(clock.now_ms(), from_ms + reached))
        await asyncio.sleep(0.005)
    async with asyncio.timeout(120):
        await host.engine.idle()
    return from_ms + reached
