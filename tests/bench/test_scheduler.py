"""A hundred thousand sleepers: what they cost, and how late those that fall due are taken. Printed, not asserted."""

import asyncio
import statistics
import time
from pathlib import Path

import pytest

from emulator.d1 import Statement
from emulator.workflow.sessions import Session
from host.model.time import ControlledClock
from tests.emulator.workflow.hosts import START_MS, WORKFLOW, Host, boot
from tests.emulator.workflow.isolates import Document, Step

SLEEPERS = 100_000
RATES = (100, 300, 1000)
SECONDS = 2
FAR_MS = 30 * 86_400_000

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
    """Notes, as each session is made, how long after its due instant the scheduler took the instance."""

    def __init__(self, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
        self.taken: list[tuple[int, float]] = []
        self.began_s = 0.0
        original = Session.__init__

        def noted(session: Session, *arguments: object) -> None:
            self.taken.append((int(session_order(arguments)), time.monotonic() - self.began_s))
            original(session, *arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(Session, "__init__", noted)

    def milliseconds(self, rate: int) -> list[float]:
        first = min(order for order, _ in self.taken)
        return [(at_s - (order - first) / rate) * 1000 for order, at_s in self.taken]


def session_order(arguments: tuple[object, ...]) -> str:
    _, due_instance = arguments
    run_id: str = due_instance.address.run_id  # type: ignore[attr-defined]
    return run_id[1:]


@pytest.mark.bench
async def test_sleepers_cost_nothing_and_are_taken_in_due_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ControlledClock.frozen(START_MS)
    before_kib = resident_kib()
    host = await asleep(tmp_path, clock)
    await host.idle()
    grown = (resident_kib() - before_kib) * 1024 / SLEEPERS
    print(f"\n{SLEEPERS} sleeping instances: the process grew by {grown:.0f} bytes each (caches of SQLite included)")
    lags = Lags(host, monkeypatch)
    await host.engine._scheduler.stop()
    position_ms = START_MS + FAR_MS
    for rate in RATES:
        host.engine.start()
        lags.taken.clear()
        lags.began_s = time.monotonic()
        position_ms = await _pass(host, clock, position_ms, rate)
        found = sorted(lags.milliseconds(rate))
        orders = [order for order, _ in lags.taken]
        print(
            f"{rate:>5}/s due for {SECONDS} s: taken {len(found)}, late by median {statistics.median(found):.0f} ms, "
            f"p99 {found[int(len(found) * 0.99)]:.0f} ms, at most {found[-1]:.0f} ms; "
            f"{'in due order' if orders == sorted(orders) else 'NOT in due order'}; all done after "
            f"{time.monotonic() - lags.began_s:.1f} s"
        )
        await host.engine._scheduler.stop()
    await host.close()


async def _pass(host: Host, clock: ControlledClock, from_ms: int, rate: int) -> int:
    """Let one instance more fall due `rate` times a second of real time: sleepers are a contract millisecond apart."""
    began_s = time.monotonic()
    reached = 0
    while reached < rate * SECONDS:
        reached = min(int((time.monotonic() - began_s) * rate), rate * SECONDS)
        clock.move_to(max(clock.now_ms(), from_ms + reached))
        await asyncio.sleep(0.005)
    async with asyncio.timeout(120):
        while len(host.runners.started) and await host.engine._scheduler.has_due():
            await asyncio.sleep(0.02)
        await host.engine.idle()
    return from_ms + reached
