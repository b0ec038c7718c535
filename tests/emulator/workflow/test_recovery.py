"""What an earlier host left behind: orphans, half-done intents, a due index that does not fit, a locked store."""

import asyncio
import sqlite3
from pathlib import Path

import apsw
import pytest

from tests.emulator.workflow.bodies import Effects, never_ends, waits_for_go
from tests.emulator.workflow.conftest import Boot
from tests.emulator.workflow.isolates import Document, Step


@pytest.mark.req("DW-39", "RS-21")
async def test_an_instance_whose_old_process_lives_waits_until_it_is_proven_gone(start: Boot) -> None:
    host = await start(Flow=never_ends)
    await host.create()
    await host.executing(steps=1)
    pid = host.runners.last.pid
    await host.vanish()
    living = {(pid, "boot")}
    host = await start(Flow=never_ends, is_alive=lambda *process: process in living)
    assert host.engine.executing() == (("workflow-1", "i"),)
    assert (await host.status()).status == "running"
    ending = asyncio.create_task(host.terminate())
    host.runners.lost_gate.set()
    await ending
    assert (await host.status()).status == "terminated"
    [context] = (await host.history()).contexts
    assert context.stop is not None and (context.stop.kind, context.stop.exit_status) == ("exit", -9)
    assert host.runners.started == []


@pytest.mark.req("DW-34", "RS-21")
async def test_an_effect_cut_by_a_kill_runs_again_as_the_same_attempt(start: Boot) -> None:
    """P01"""
    effects = Effects()
    blocked = asyncio.Event()

    async def body(params: Document, step: Step) -> Document:
        async def effect() -> Document:
            effects.runs["pay"] += 1
            await blocked.wait()
            return {"paid": 1}

        return await step.do("pay", effect, {"maxAttempts": 2})

    host = await start(Flow=body)
    await host.create()
    await host.executing(steps=1)
    await host.until(lambda: effects.runs["pay"] > 0)
    await host.vanish()
    blocked.set()
    host = await start(Flow=body)
    await host.idle()
    assert await host.output() == {"paid": 1}
    assert effects.runs["pay"] == 2
    history = await host.history()
    assert [len(step.attempts) for step in history.steps] == [1]
    assert [c.stop and c.stop.kind for c in history.contexts] == ["lost_host", "ack"]


@pytest.mark.req("DW-35")
async def test_a_timer_that_fell_due_while_the_host_was_down_fires_once(start: Boot) -> None:
    """P03"""
    effects = Effects()

    async def body(params: Document, step: Step) -> Document:
        await step.sleep("nap", 5)
        return await step.do("after", effects.of("after"))

    host = await start(Flow=body)
    await host.create()
    await host.idle()
    await host.vanish()
    host.clock.move_to(host.clock.now_ms() + 60_000)
    host = await start(Flow=body)
    await host.idle()
    assert await host.output() is None
    assert effects.runs["after"] == 1


async def test_a_due_index_that_does_not_fit_is_told_and_mended(
    start: Boot, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    host = await start(Flow=waits_for_go)
    for identifier in ("a", "b", "c"):
        await host.create(identifier)
    await host.idle()
    stored = await host.database.prepare("SELECT run_id, due_at_ms FROM workflow_due ORDER BY run_id").raw()
    await host.vanish()
    with sqlite3.connect(tmp_path / "emulator.sqlite") as file:
        file.execute("DELETE FROM workflow_due WHERE run_id = 'a'")
        file.execute("UPDATE workflow_due SET due_at_ms = 1 WHERE run_id = 'b'")
    file.close()
    host = await start(Flow=waits_for_go)
    assert await host.database.prepare("SELECT run_id, due_at_ms FROM workflow_due ORDER BY run_id").raw() == stored
    assert caplog.text.count("due index: instance") == 2


async def test_a_store_that_is_locked_for_a_while_loses_no_instance(start: Boot, tmp_path: Path) -> None:
    """P10"""

    async def body(params: Document, step: Step) -> Document:
        await step.sleep("nap", 5)
        return None

    host = await start(Flow=body)
    await asyncio.gather(*(host.create(f"i{n}") for n in range(20)))
    await host.idle()
    await host.vanish()
    host.clock.move_to(host.clock.now_ms() + 10_000)
    lock = apsw.Connection(
        str(tmp_path / "emulator.sqlite")
    )  # locks of two SQLite libraries do not meet in one process
    lock.execute("BEGIN IMMEDIATE")
    released = asyncio.Event()

    def release() -> None:
        lock.close()
        released.set()

    asyncio.get_running_loop().call_later(0.5, release)
    host = await start(Flow=body)
    await host.idle()
    assert released.is_set()
    assert {view.status for view in await host.engine.inspection.instances()} == {"complete"}
