"""What falls due is queued by a task of its own, in due order, while nothing can start."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from emulator.d1 import Statement
from emulator.runstore.address import RunAddress
from emulator.workflow import MIGRATIONS, marking, schema, transitions
from emulator.workflow.marking import PAUSE_MS, Marker
from host.model.faults import FaultAction, FaultPoints
from tests.emulator.workflow.bodies import waits_for_go
from tests.emulator.workflow.conftest import Boot
from tests.emulator.workflow.hosts import START_MS, WORKFLOW, Host
from tests.emulator.workflow.isolates import Document, Step, WaitTimeout


async def naps(params: Document, step: Step) -> Document:
    if params is not None:
        await step.sleep("nap", int(params["s"]))
    return None


async def waits_ten_seconds(params: Document, step: Step) -> Document:
    try:
        return await step.wait("first", "go", 10)
    except WaitTimeout:
        return {"late": 1}


async def mark(host: Host, most: int = 100) -> int:
    """One mark at the present instant; how many it queued."""
    *_, marked = await host.database.batch(marking.marks(host.clock.now_ms(), most))
    return marked.changes


async def queue(host: Host) -> list[str]:
    """Instances in the order in which they will start."""
    [found] = await host.database.query(
        [Statement("SELECT run_id FROM workflow_due WHERE is_queued = 1 ORDER BY due_at_ms, ord")]
    )
    return [str(run_id) for (run_id,) in found.rows]


async def asleep(start: Boot, naps_s: dict[str, int]) -> Host:
    """A host with these sleepers that neither marks nor starts anything any more."""
    host = await start(Flow=naps)
    for identifier, seconds in naps_s.items():
        await host.create(identifier, {"s": seconds})
    await host.idle()
    await host.engine._scheduler.stop()
    return host


@pytest.mark.req("DW-12", "DW-35")
async def test_a_sleeper_is_queued_at_its_instant_and_not_before(start: Boot) -> None:
    host = await asleep(start, {"i": 10})
    host.clock.move_to(START_MS + 9_999)
    assert (await mark(host), (await host.status()).status) == (0, "sleeping")
    host.clock.move_to(START_MS + 10_000)
    assert (await mark(host), (await host.status()).status) == (1, "queued")
    assert await mark(host) == 0
    host.engine.start()
    await host.idle()
    assert (await host.status()).status == "complete"


@pytest.mark.req("DW-35")
async def test_only_what_is_queued_is_claimed(start: Boot) -> None:
    host = await asleep(start, {"i": 10})
    host.clock.move_to(START_MS + 10_000)
    [found] = await host.database.query([Statement("SELECT snapshot ->> '$.lifecycle.revision' FROM runs")])
    revision = int(str(found.rows[0][0]))
    claims = [
        transitions.claim(RunAddress(WORKFLOW, "i"), number, "owner", "v1", host.clock.now_ms())
        for number in (revision, revision + 1)
    ]
    early, *_, late = await host.database.batch([claims[0], *marking.marks(host.clock.now_ms(), 1), claims[1]])
    assert (early.is_applied, late.is_applied) == (False, True)
    await host.vanish()


@pytest.mark.req("DW-12", "DW-35")
async def test_the_marker_needs_no_start(start: Boot) -> None:
    host = await asleep(start, {"i": 10})
    host.engine._scheduler.marker.start()
    host.clock.move_to(START_MS + 10_000)
    await host.becomes("queued")
    assert len(host.runners.started) == 1


@pytest.mark.req("DW-35")
async def test_the_longest_due_are_queued_first_and_start_in_that_order(start: Boot) -> None:
    host = await asleep(start, {"c": 30, "a": 10, "d": 40, "b": 20})
    host.clock.move_to(START_MS + 35_000)
    await host.create("new")
    assert [await mark(host, 2), await queue(host)] == [2, ["a", "b", "new"]]
    assert [await mark(host, 2), await queue(host)] == [1, ["a", "b", "c", "new"]]
    host.engine.start()
    await host.advance(5)
    assert [context.start.instance_id for context in host.runners.started][4:] == ["a", "b", "c", "new", "d"]


@pytest.mark.req("DW-36")
@pytest.mark.parametrize(("late_ms", "output"), [(0, {"n": 1}), (1, {"late": 1})])
async def test_a_mark_decides_nothing_between_an_event_and_its_deadline(
    start: Boot, late_ms: int, output: Document
) -> None:
    host = await start(Flow=waits_ten_seconds)
    await host.create()
    await host.idle()
    await host.engine._scheduler.stop()
    host.clock.move_to(START_MS + 10_000)
    assert await mark(host) == 1
    host.clock.move_to(START_MS + 10_000 + late_ms)
    await host.send("go", {"n": 1})
    assert (await host.status()).status == "queued"
    host.engine.start()
    await host.idle()
    assert await host.output() == output


@pytest.mark.req("DW-36")
async def test_a_waiting_instance_is_queued_once_its_event_was_accepted(start: Boot) -> None:
    host = await start(Flow=waits_for_go)
    await host.create()
    await host.idle()
    await host.engine._scheduler.stop()
    await host.send("other")
    assert (await mark(host), (await host.status()).status) == (0, "waiting")
    await host.send("go", {"n": 1})
    assert (await mark(host), (await host.status()).status) == (1, "queued")


@pytest.mark.req("DW-39")
async def test_code_that_is_not_known_to_have_stopped_is_not_queued(start: Boot) -> None:
    host = await start(Flow=naps)
    gate = host.runners.stop_gate = asyncio.Event()
    await host.create(params={"s": 10})
    await host.executing(steps=1)
    host.clock.move_to(START_MS + 10_000)
    assert (await mark(host), (await host.status()).status) == (0, "running")
    gate.set()
    await host.idle()
    assert (await host.status()).status == "complete"


@pytest.mark.req("DW-06")
async def test_nothing_of_a_closing_workflow_is_queued(start: Boot) -> None:
    host = await asleep(start, {"i": 10})
    host.clock.move_to(START_MS + 10_000)
    await host.database.batch([Statement("UPDATE workflow_gates SET state = 'closing'")])
    assert await mark(host) == 0
    assert not await host.engine._scheduler.has_due()


@pytest.mark.req("DW-35")
async def test_rest_is_looked_for_again_when_something_ended_during_the_look(
    start: Boot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A context that ends meanwhile may leave its instance queued again, which the look was too early to see."""
    host = await asleep(start, {"i": 10})
    looks = 0

    async def has_due() -> bool:
        nonlocal looks
        looks += 1
        if looks == 1:
            host.engine._around.activity.ring()
        return False

    monkeypatch.setattr(host.engine._scheduler, "has_due", has_due)
    await host.idle()
    assert looks == 2


@pytest.mark.req("DW-17")
async def test_a_queued_sleeper_is_terminated_without_a_context(start: Boot) -> None:
    host = await asleep(start, {"i": 10})
    host.clock.move_to(START_MS + 10_000)
    assert await mark(host) == 1
    await host.terminate()
    assert ((await host.status()).status, await queue(host)) == ("terminated", [])


@pytest.mark.req("DW-35")
async def test_a_mark_that_failed_after_its_commit_is_not_waited_for(start: Boot) -> None:
    faults = FaultPoints()
    host = await start(Flow=naps, faults=faults)
    await host.create("a", {"s": 10})
    await host.create("b", {"s": 20})
    await host.idle()
    faults.arm("workflow.due_marked", 1, FaultAction.ERROR)
    await host.advance(10)
    assert [(await host.status(each)).status for each in "ab"] == ["complete", "sleeping"]
    await host.advance(10)
    assert (await host.status("b")).status == "complete"


@pytest.mark.req("DW-35")
async def test_on_the_system_clock_marks_keep_a_pause_that_no_burst_has_to_wait_for(
    start: Boot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marking, "MOST_MARKED", 2)
    host = await asleep(start, {"a": 10, "b": 10, "c": 10})
    monkeypatch.setattr(type(host.clock), "is_controlled", property(lambda _: False))
    host.clock.move_to(START_MS + 10_000)
    marker = Marker(host.engine._around)
    assert [await marker.mark(START_MS + 10_000) for _ in range(3)] == [
        START_MS + 10_000,
        None,
        START_MS + 10_000 + PAUSE_MS,
    ]
    assert await queue(host) == ["a", "b", "c"]


@pytest.mark.req("DW-35")
async def test_an_instance_that_is_not_there_any_more_hides_no_later_one(start: Boot) -> None:
    host = await asleep(start, {"a": 10, "b": 20})
    marker = Marker(host.engine._around)
    assert await marker.mark(START_MS) == START_MS + 10_000
    await host.terminate("a")
    host.clock.move_to(START_MS + 10_000)
    assert await marker.mark(START_MS + 10_000) == START_MS + 20_000


@pytest.mark.req("DW-35")
async def test_a_mark_that_does_not_fit_the_status_is_told_and_mended(
    start: Boot, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    host = await asleep(start, {"a": 10, "b": 10})
    host.clock.move_to(START_MS + 10_000)
    assert await mark(host) == 2
    await host.database.batch([Statement("UPDATE workflow_due SET is_queued = 0 WHERE run_id = 'b'")])
    await host.vanish()
    host = await start(Flow=naps, starts=False)
    assert await queue(host) == ["a", "b"]
    assert caplog.text.count("due index: instance") == 1


@pytest.mark.req("DW-35")
def test_what_was_queued_before_there_were_marks_is_marked(tmp_path: Path) -> None:
    file = sqlite3.connect(tmp_path / "old.sqlite")
    before = MIGRATIONS.index(schema.QUEUE)
    for script in MIGRATIONS[:before]:
        file.executescript(script)
    for number, status in enumerate(("pending", "sleeping", "running")):
        at = "2026-01-01T00:00:00.000Z"
        snapshot = f'{{"status":"{status}"}}'
        file.execute("INSERT INTO runs VALUES (?, ?, NULL, ?, ?, ?)", (WORKFLOW, status, snapshot, at, at))
        due = (number, WORKFLOW, status, START_MS)
        file.execute("INSERT INTO workflow_due (ord, workflow_id, run_id, expires_at_ms) VALUES (?, ?, ?, ?)", due)
    file.executescript(schema.QUEUE)
    marks = file.execute("SELECT run_id, is_queued FROM workflow_due ORDER BY ord").fetchall()
    file.close()
    assert marks == [("pending", 1), ("sleeping", 0), ("running", 0)]
