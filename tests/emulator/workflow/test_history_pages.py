"""Long histories are read in pages: nothing is left out, nothing is told twice, and no page is large."""

import json
from pathlib import Path

import apsw
import pytest

from emulator.compose.inspection import EngineInspection
from emulator.d1 import Statement
from emulator.runstore.address import RunAddress
from emulator.workflow import history_pages, step_rows
from emulator.workflow.history_pages import PAGE_BYTES
from tests.emulator.workflow.bodies import never_ends, waits_for_go
from tests.emulator.workflow.conftest import Boot
from tests.emulator.workflow.hosts import START_MS, WORKFLOW, Host

MIB = 1024 * 1024
_COUNTERS = Path("/proc/self/io")

_STEPS = """
INSERT INTO workflow_steps (workflow_id, run_id, name, ord, kind, attempt, state, begun_at_ms, settled_at_ms, result)
WITH RECURSIVE n(i) AS (SELECT ?2 UNION ALL SELECT i + 1 FROM n WHERE i < ?3)
SELECT ?1, 'i', 'step ' || i, i, 'do', 1, 'succeeded', ?4, ?4,
    '{"text":"' || replace(hex(zeroblob(?5)), '00', 'x') || '"}' FROM n
"""
_ATTEMPTS = """
INSERT INTO workflow_attempts (workflow_id, run_id, name, number, begun_at_ms, failed_at_ms, message)
SELECT workflow_id, run_id, name, 1, ?1, ?1, 'declined ' || name FROM workflow_steps
"""
_CONTEXTS = """
INSERT INTO workflow_contexts (context_id, workflow_id, run_id, ord, version_uid, claimed_at_ms, stop_kind, stopped_at)
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?2)
SELECT 'c' || i, ?1, 'i', i, 'v1', ?3, 'ack', '2026-01-01T00:00:00.000Z' FROM n
"""


async def with_history(start: Boot, steps: int, size: int, contexts: int = 0) -> Host:
    """A host with one queued instance, as if it had so many steps with results of that size."""
    host = await start(Flow=waits_for_go, starts=False)
    await host.create()
    for first in range(1, steps + 1, 16):
        most = min(first + 15, steps)
        await host.database.batch([Statement(_STEPS, (WORKFLOW, first, most, START_MS, size))])
    await host.database.batch(
        [Statement(_ATTEMPTS, (START_MS,)), Statement(_CONTEXTS, (WORKFLOW, contexts, START_MS))][: 1 + bool(contexts)]
    )
    return host


@pytest.mark.req("DW-40")
async def test_every_step_and_context_of_a_long_history_is_shown_once_in_order(start: Boot) -> None:
    host = await with_history(start, 40, 100_000, contexts=600)
    pieces = await EngineInspection(host.engine).show_instance(WORKFLOW, "i")
    assert pieces is not None
    texts = [piece async for piece in pieces]
    shown = json.loads("".join(texts))
    assert [step["name"] for step in shown["steps"]] == [f"step {n}" for n in range(1, 41)]
    assert {len(step["result"]["text"]) for step in shown["steps"]} == {100_000}
    assert [step["attemptRecords"][0]["message"] for step in shown["steps"]] == [
        f"declined step {n}" for n in range(1, 41)
    ]
    assert [context["order"] for context in shown["contexts"]] == list(range(1, 601))
    assert max(map(len, texts)) < 2 * PAGE_BYTES


@pytest.mark.req("DW-40")
async def test_a_page_has_one_step_at_least_however_large(start: Boot) -> None:
    host = await with_history(start, 3, 1_048_560)
    places: list[int | None] = [0]
    while places[-1] is not None:
        page = await host.engine.inspection.steps(WORKFLOW, "i", places[-1])
        assert len(page.items) == 1
        places.append(page.after)
    assert places == [0, 1, 2, None]


async def test_nothing_is_shown_of_an_instance_that_is_not_there(start: Boot) -> None:
    host = await start(Flow=never_ends)
    assert await EngineInspection(host.engine).show_instance(WORKFLOW, "i") is None


def bytes_read(path: Path, statements: list[Statement]) -> int:
    """What SQLite reads of the file for these statements on a connection of their own."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    before = _read_by_this_process()
    for statement in statements:
        connection.execute(statement.sql, statement.values).fetchall()
    connection.close()
    return _read_by_this_process() - before


def _read_by_this_process() -> int:
    counters = _COUNTERS.read_text().split()
    return int(counters[counters.index("rchar:") + 1])


@pytest.mark.skipif(not _COUNTERS.exists(), reason="only Linux counts what a process reads")
@pytest.mark.req("DW-24", "DW-32", "DW-40")
async def test_results_that_are_neither_sent_nor_shown_are_not_read(start: Boot, tmp_path: Path) -> None:
    """A wake reads what it sends, 4 MiB; a page of the history reads what it shows, 1 MiB."""
    host = await with_history(start, 80, 1_000_000)
    address, path = RunAddress(WORKFLOW, "i"), tmp_path / "emulator.sqlite"
    woken = step_rows.select_history(address)
    [found] = await host.database.query([woken])
    assert [bool(row[-1]) for row in found.rows] == [False] * 4 + [True] * 76
    assert bytes_read(path, [woken]) < 8 * MIB
    assert bytes_read(path, history_pages.select_steps(address, 0)) < 4 * MIB
