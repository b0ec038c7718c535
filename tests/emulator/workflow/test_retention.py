"""Ended instances stay for thirty days, then they and their ids go, in batches that hold up nobody."""

import asyncio

import pytest

from emulator.d1 import Statement
from emulator.workflow import ErrorName, InstanceRefused, retention
from emulator.workflow.retention import KEPT_MS, RETENTION_MS
from host.model.faults import FaultAction, FaultPoints
from tests.emulator.workflow.bodies import Effects, waits_for_go
from tests.emulator.workflow.conftest import Boot
from tests.emulator.workflow.hosts import Host
from tests.emulator.workflow.isolates import Document, Step, StepFailed

TABLES = ("runs", "workflow_steps", "workflow_attempts", "workflow_events", "workflow_contexts", "workflow_due")


async def ends(params: Document, step: Step) -> Document:
    try:
        await step.do("flaky", Effects(flaky=9).of("flaky"), {"maxAttempts": 2})
    except StepFailed:
        for number in range((params or {}).get("steps", 0)):
            await step.do(f"s{number}", Effects().of("s", params))
    return {"ended": 1}


async def rows(host: Host) -> list[int]:
    found = await host.database.query([Statement(f"SELECT COUNT(*) FROM {table}") for table in TABLES])
    return [int(str(result.rows[0][0])) for result in found]


async def is_unknown(host: Host, identifier: str) -> bool:
    try:
        await host.status(identifier)
    except InstanceRefused as refused:
        assert refused.name is ErrorName.UNKNOWN_INSTANCE
        return True
    return False


@pytest.mark.req("DW-40", "DW-11")
async def test_an_ended_instance_is_kept_whole_for_thirty_days_and_then_unknown(start: Boot) -> None:
    host = await start(Flow=waits_for_go)
    for identifier in ("complete", "terminated", "errored", "waiting"):
        await host.create(identifier)
    await host.idle()
    await host.send("go", {"n": 1}, "complete")
    await host.terminate("terminated")
    await host.advance(61)
    assert (await host.status("errored")).status == "errored"
    await host.create("alive")
    await host.idle()
    await host.advance(RETENTION_MS / 1000 - 61)
    before = await host.history("complete")
    assert before.output == '{"got":1}' and len(before.steps) == 1
    with pytest.raises(InstanceRefused, match="exists"):
        await host.create("complete")
    await host.advance((KEPT_MS - RETENTION_MS) / 1000)
    assert [await is_unknown(host, each) for each in ("complete", "terminated", "errored")] == [True, True, False]
    await host.advance(61)
    assert await is_unknown(host, "errored") and await is_unknown(host, "waiting")
    assert await host.create("complete") == "complete"
    await host.idle()
    assert (await host.status("complete")).status == "waiting"
    assert (await host.history("complete")).events == ()


@pytest.mark.req("DW-40")
async def test_what_lives_is_never_purged_however_old_it_is(start: Boot) -> None:
    async def sleeps(params: Document, step: Step) -> Document:
        await step.sleep("long", 31_000_000)
        return None

    host = await start(Flow=sleeps)
    await host.create()
    await host.advance(30_999_999)
    assert (await host.status()).status == "sleeping"


@pytest.mark.req("DW-40")
async def test_a_long_history_goes_in_batches_and_the_id_last(start: Boot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        retention, "_PURGE", tuple(sql.replace("place <= 256", "place <= 4") for sql in retention._PURGE)
    )
    host = await start(Flow=ends)
    await host.create(params={"steps": 10})
    await host.idle()
    seen: list[list[int]] = []
    purge = retention.Retention._purge_batch

    async def purge_and_look(self: retention.Retention) -> None:
        await purge(self)
        seen.append(await rows(host))

    monkeypatch.setattr(retention.Retention, "_purge_batch", purge_and_look)
    await host.advance(KEPT_MS / 1000)
    assert [each[:2] for each in seen] == [[1, 7], [1, 3], [0, 0]]
    assert seen[-1] == [0] * len(TABLES)


@pytest.mark.req("DW-40")
async def test_large_results_go_by_size_and_many_instances_by_number(start: Boot) -> None:
    host = await start(Flow=ends)
    await host.create("large", {"steps": 12, "t": "x" * 1_000_000})
    await asyncio.gather(*(host.create(f"i{number}") for number in range(40)))
    await host.idle()
    host.clock.move_to(host.clock.now_ms() + KEPT_MS)
    await host.idle()
    assert await rows(host) == [0] * len(TABLES)


@pytest.mark.req("DW-40")
async def test_what_became_outdated_while_the_host_was_down_goes_and_a_failing_purge_is_repeated(start: Boot) -> None:
    host = await start(Flow=ends)
    await host.create()
    await host.idle()
    await host.vanish()
    host.clock.move_to(host.clock.now_ms() + KEPT_MS)
    faults = FaultPoints()
    faults.arm("workflow.history_purged", 1, FaultAction.ERROR)
    host = await start(Flow=ends, faults=faults)
    await host.idle()
    assert await host.engine.inspection.instances() == ()
