"""A hundred thousand sleepers: what they cost, and how late those that fall due are marked and started. Printed only.

The interpreter is set up as a host sets up its own, so that what the tests loaded is no part of its collections.
Contexts are played by tasks on the same event loop, at a hundredth of its work: less than a host's channels take.
"""

import asyncio
import gc
import os
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from emulator.compose.interpreter import keep_what_is_there, share_turns
from emulator.contexts import ContextStart, RunningContext
from emulator.d1 import Result, Statement
from emulator.d1.database import Preparable
from emulator.workflow.due import LIFETIME_MS
from emulator.workflow.marking import marks
from host.model.time import ControlledClock, timestamp
from tests.emulator.workflow.hosts import WORKFLOW, Host, boot
from tests.emulator.workflow.isolates import Document, Step

SLEEPERS = 100_000
RATES = (100, 300, 1000)
SECONDS = 2
FAR_MS = 30 * 86_400_000
SOON_MS = 300
EMPTY = 300

_RUNS = """
INSERT INTO runs (workflow_id, run_id, resource_id, snapshot, created_at, updated_at)
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?2)
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
_SOON = "due_at_ms = ?1 + CAST(({0} - ?2) * 1000 / ?3 AS INTEGER) WHERE {0} > ?2 AND {0} <= ?2 + ?4"
_MARK = marks(0, 0)
"""The statements of a mark; the last one tells how many were marked."""


@pytest.fixture(autouse=True)
def interpreter_of_a_host() -> Iterator[None]:
    """Set up as `run_host` does it; what a start made is kept once the sleepers are there."""
    interval_s = sys.getswitchinterval()
    share_turns()
    yield
    gc.unfreeze()
    sys.setswitchinterval(interval_s)


async def ends(params: Document, step: Step) -> Document:
    return None


async def asleep(folder: Path, clock: ControlledClock) -> Host:
    """A host beside whose start 100 000 instances already slept."""
    host = await boot(folder / "e.sqlite", clock, max_contexts=1000, starts=False, Flow=ends)
    await host.deploy("v1")
    now_ms = clock.now_ms()
    statements = [
        Statement(_RUNS, (WORKFLOW, SLEEPERS, timestamp(now_ms))),
        Statement(_STEPS, (now_ms + FAR_MS, now_ms)),
        Statement(_DUE, (now_ms + LIFETIME_MS,)),
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

    They are marked in due order: the n-th to be marked is the n-th that fell due."""

    def __init__(self, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
        self._clock = host.clock
        self._marks: list[tuple[int, int]] = []
        self.starts: list[tuple[int, int]] = []
        submit, start = host.database.submit, host.runners.start

        def noted_submit(
            statements: Sequence[Preparable], *, is_urgent: bool = False
        ) -> "asyncio.Future[list[Result]]":
            batch = submit(statements, is_urgent=is_urgent)
            if any(isinstance(each, Statement) and each.sql == _MARK[-1].sql for each in statements):
                batch.add_done_callback(self._note_mark)
            return batch

        async def noted_start(start_of: ContextStart, *callbacks: Any) -> RunningContext:
            self.starts.append((int(start_of.instance_id[1:]), self._clock.now_ms()))
            host.runners.started.clear()  # a pool does not keep what it has started either
            return await start(start_of, *callbacks)

        monkeypatch.setattr(host.database, "submit", noted_submit)
        monkeypatch.setattr(host.runners, "start", noted_start)

    def clear(self) -> None:
        self._marks.clear()
        self.starts.clear()

    def _note_mark(self, batch: "asyncio.Future[list[Result]]") -> None:
        self._marks.append((batch.result()[len(_MARK) - 1].changes, self._clock.now_ms()))

    def marks_ms(self, from_ms: int, rate: int) -> list[float]:
        at_ms = [marked_ms for count, marked_ms in self._marks for _ in range(count)]
        return [marked_ms - from_ms - number * 1000 / rate for number, marked_ms in enumerate(at_ms, 1)]

    def starts_ms(self, from_ms: int, first: int, rate: int) -> list[float]:
        return [started_ms - from_ms - (order - first) * 1000 / rate for order, started_ms in self.starts]

    @property
    def is_in_order(self) -> bool:
        orders = [order for order, _ in self.starts]
        return orders == sorted(orders)


def late(what: str, found: list[float]) -> str:
    return (
        f"{what} {len(found)} late by median {statistics.median(found):.0f} ms, "
        f"p99 {sorted(found)[int(len(found) * 0.99)]:.0f} ms, at most {max(found):.0f} ms"
    )


async def capacity(host: Host) -> float:
    """Contexts that do nothing, a second, when all of them are queued at once."""
    began_ms = host.clock.now_ms()
    await asyncio.gather(*(host.create(f"e{number}") for number in range(EMPTY)))
    await host.idle()
    host.runners.started.clear()
    return EMPTY * 1000 / (host.clock.now_ms() - began_ms)


async def falls_due(host: Host, first: int, rate: int) -> int:
    """Let the sleepers after the `first` fall due at a rate from an instant that is returned."""
    from_ms, count = host.clock.now_ms() + SOON_MS, rate * SECONDS
    values = (from_ms, first, rate, count)
    await host.database.batch(
        [
            Statement(f"UPDATE workflow_steps SET {_SOON.format('rowid')}", values),
            Statement(f"UPDATE workflow_due SET {_SOON.format('ord')}", values),
        ]
    )
    host.engine.deployments_changed()
    return from_ms


@pytest.mark.bench
@pytest.mark.req("DW-35")
async def test_sleepers_cost_nothing_and_are_taken_in_due_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_kib = resident_kib()
    host = await asleep(tmp_path, ControlledClock())
    await host.idle()
    keep_what_is_there()
    grown = (resident_kib() - before_kib) * 1024 / SLEEPERS
    print(f"\n{SLEEPERS} sleeping instances: the process grew by {grown:.0f} bytes each (caches of SQLite included)")
    print(f"capacity for empty contexts: {await capacity(host):.0f}/s (load {os.getloadavg()[0]:.1f})")
    lags, first = Lags(host, monkeypatch), 0
    for rate in RATES:
        lags.clear()
        from_ms = await falls_due(host, first, rate)
        async with asyncio.timeout(120):
            while len(lags.starts) < rate * SECONDS:
                await asyncio.sleep(0.05)
            await host.engine.idle()
        print(f"{rate:>5}/s due for {SECONDS} s: {late('marked', lags.marks_ms(from_ms, rate))}")
        print(
            f"{'':21}{late('started', lags.starts_ms(from_ms, first, rate))}; "
            f"{'in due order' if lags.is_in_order else 'NOT in due order'}; "
            f"done after {(host.clock.now_ms() - from_ms) / 1000:.1f} s"
        )
        first += rate * SECONDS
    await host.close()
