"""Terminate, uncatchable endings, deaths and forged frames."""

import asyncio
import gc
import weakref
from typing import Any

import pytest

from tests.emulator.workflow.bodies import Effects, never_ends, waits_for_go
from tests.emulator.workflow.conftest import Boot
from tests.emulator.workflow.isolates import Document, Step, StepFailed


@pytest.mark.req("DW-17", "DW-39")
async def test_terminate_of_a_running_instance_holds_now_and_for_ever(start: Boot) -> None:
    """T01"""
    host = await start(Flow=never_ends)
    await host.create()
    await host.executing(steps=1)
    await host.terminate()
    assert (await host.status()).status == "terminated"
    assert host.runners.last.is_stopped
    host.runners.last.on_frame('["done",1,"endless",1,null]')
    await host.vanish()
    host = await start(Flow=never_ends)
    await host.advance(1)
    assert (await host.status()).status == "terminated"
    assert host.runners.started == []


@pytest.mark.req("DW-17")
async def test_terminate_does_not_resolve_before_the_stop_is_proven(start: Boot) -> None:
    host = await start(Flow=never_ends)
    gate = host.runners.stop_gate = asyncio.Event()
    await host.create()
    await host.executing()
    ending = asyncio.create_task(host.terminate())
    leaving = asyncio.create_task(host.terminate())
    done, _ = await asyncio.wait([ending], timeout=0.05)
    assert not done
    assert (await host.status()).status == "running"
    leaving.cancel()
    gate.set()
    await ending
    assert (await host.status()).status == "terminated"


@pytest.mark.req("DW-17", "DW-34")
async def test_terminate_cancels_a_planned_retry(start: Boot) -> None:
    """T03"""
    effects = Effects(pay=9)

    async def body(params: Document, step: Step) -> Document:
        return await step.do("pay", effects.of("pay"), {"maxAttempts": 5, "initialDelaySeconds": 3600})

    host = await start(Flow=body)
    await host.create()
    await host.idle()
    await host.terminate()
    await host.advance(7200)
    assert effects.runs["pay"] == 1
    assert (await host.status()).status == "terminated"


@pytest.mark.req("DW-17")
async def test_terminate_of_an_ended_instance_changes_nothing(start: Boot) -> None:
    """T05"""
    host = await start(Flow=waits_for_go)
    await host.create()
    await host.send("go", {"n": 1})
    await host.idle()
    before = await host.history()
    host.clock.move_to(host.clock.now_ms() + 1000)
    await host.terminate()
    assert await host.history() == before


@pytest.mark.req("DW-17", "DW-35")
async def test_terminate_wins_over_an_intent_to_sleep_and_loses_against_one_to_end(start: Boot) -> None:
    async def sleeps(params: Document, step: Step) -> Document:
        await step.sleep("nap", 5)
        return None

    async def returns(params: Document, step: Step) -> Document:
        return {"done": 1}

    for body, expected in ((sleeps, "terminated"), (returns, "complete")):
        host = await start(Flow=body)
        gate = host.runners.stop_gate = asyncio.Event()
        identifier = expected
        await host.create(identifier)
        await host.executing()
        await host.until(lambda host=host: host.engine._sessions()[0]._finishing is not None)  # type: ignore[misc]
        ending = asyncio.create_task(host.terminate(identifier))
        await asyncio.wait([ending], timeout=0.02)
        gate.set()
        await ending
        assert (await host.status(identifier)).status == expected
        await host.close()


@pytest.mark.req("DW-31")
@pytest.mark.parametrize(
    "frames",
    [
        [["mismatch", "two steps"]],
        [["begin", 0, "a", 1, None], ["begin", 0, "b", 1, None]],
        [["begin", 0, "a", 1, None], ["sleep", 1, "b", 5]],
        [["begin", 0, "a", 1, None], ["return", None]],
        [["begin", 0, "a", 1, None], ["threw", "x", None]],
    ],
)
async def test_overlapping_or_unsettled_steps_end_as_a_mismatch(start: Boot, frames: list[list[Any]]) -> None:
    async def body(params: Document, step: Step) -> Document:
        for frame in frames:
            step.raw(frame)
        await asyncio.Event().wait()
        return None

    host = await start(Flow=body)
    await host.create()
    await host.idle()
    assert (await host.status()).reason == "step_definition_mismatch"


@pytest.mark.req("DW-31")
@pytest.mark.parametrize("kind", ["sleep", "wait", "return"])
async def test_a_name_pending_as_another_kind_ends_as_a_mismatch(start: Boot, kind: str) -> None:
    """R05"""

    async def second(params: Document, step: Step) -> Document:
        if kind == "sleep":
            await step.sleep("endless", 5)
        elif kind == "wait":
            await step.wait("endless", "go", 5)
        return None

    host = await start(Flow=never_ends)
    await host.create()
    await host.executing(steps=1)
    await host.vanish()
    host = await start(Flow=second)
    await host.idle()
    assert (await host.status()).reason == "step_definition_mismatch"


@pytest.mark.req("DW-32")
async def test_a_completed_name_replays_whatever_asks_for_it(start: Boot) -> None:
    """R03"""
    effects = Effects()

    async def body(params: Document, step: Step) -> Document:
        got = [await step.do("s", effects.of("s", {"n": 1}))]
        await step.sleep("s2", 1)
        got.append(await step.wait("s", "go", 9))
        await step.sleep("s", 9)
        return {"got": got}

    host = await start(Flow=body)
    await host.create()
    await host.advance(1)
    assert await host.output() == {"got": [{"n": 1}, {"n": 1}]}
    assert effects.runs["s"] == 1


@pytest.mark.req("DW-33")
async def test_the_1025th_step_name_ends_the_run(start: Boot) -> None:
    async def body(params: Document, step: Step) -> Document:
        for number in range(1024):
            await step.sleep(f"s{number}", 0)
        await step.sleep("one more", 0)
        return None

    host = await start(Flow=body)
    await host.create()
    async with asyncio.timeout(30):
        await host.engine.idle()
    assert (await host.status()).reason == "step_limit_exceeded"
    assert len((await host.history()).steps) == 1024


@pytest.mark.req("DW-34", "DW-39")
async def test_a_death_replays_the_attempt_and_the_third_at_one_point_ends_the_run(start: Boot) -> None:
    host = await start(Flow=never_ends)
    await host.create()
    for number in (1, 2, 3):
        await host.executing(contexts=number, steps=1)
        assert host.runners.last.start.steps == () or host.runners.last.start.steps[0].state == "pending:do:1:"
        host.runners.last.die("spun without end")
    await host.idle()
    status = await host.status()
    assert (status.status, status.reason) == ("errored", "run_threw")
    assert "died three times" in (status.message or "") and "spun without end" in (status.message or "")
    history = await host.history()
    assert [(c.ending, c.stop and c.stop.kind) for c in history.contexts] == [("spun without end", "exit")] * 3


@pytest.mark.req("DW-21", "DW-39")
async def test_a_death_beside_other_contexts_is_no_death_of_the_instance(start: Boot) -> None:
    host = await start(Flow=never_ends)
    await host.create()
    for number in range(1, 8):
        await host.executing(contexts=number, steps=1)
        host.runners.last.die("its neighbour spun", is_own_fault=number in (2, 7))
    await host.executing(contexts=8, steps=1)
    assert (await host.status()).status == "running"
    host.runners.last.die("spun")
    await host.idle()
    status = await host.status()
    assert (status.status, status.reason) == ("errored", "run_threw")
    endings = [context.ending for context in (await host.history()).contexts]
    assert endings == ["its neighbour spun"] * 7 + ["spun"]


async def test_deaths_at_different_points_are_not_added_up(start: Boot) -> None:
    async def body(params: Document, step: Step) -> Document:
        for number in range(4):
            await step.do(f"s{number}", Effects().of("x"))
            if len(host.runners.started) == number + 1:
                asyncio.get_running_loop().call_soon(host.runners.last.die)
                await asyncio.Event().wait()
        return {"alive": 1}

    host = await start(Flow=body)
    await host.create()
    await host.idle()
    assert await host.output() == {"alive": 1}
    assert len(host.runners.started) == 5


@pytest.mark.req("DW-42", "DW-39")
@pytest.mark.parametrize(
    "frame",
    [
        "not json",
        "[]",
        '["begin",0,"a",1]',
        '["begin",0,"",1,null]',
        '["begin",0,"a",2,null]',
        '["begin",0,"a",1,"{}"]',
        '["done",1,"a",1,null]',
        '["failed",1,"a",1,"x"]',
        '["need",1,"a"]',
        '["sleep",1,"a",-1]',
        '["wait",1,"a","t",0]',
        '["begin",true,"a",1,null]',
        '["reply",1,"done",null,0]',
    ],
)
async def test_a_frame_that_cannot_be_kills_the_context_and_commits_nothing(start: Boot, frame: str) -> None:
    async def body(params: Document, step: Step) -> Document:
        if len(host.runners.started) == 1:
            host.runners.last.emit(frame)
            await asyncio.Event().wait()
        return {"second": 1}

    host = await start(Flow=body)
    await host.create()
    await host.idle()
    assert await host.output() == {"second": 1}
    history = await host.history()
    assert history.steps == ()
    assert "impossible frame" in (history.contexts[0].ending or "")


@pytest.mark.req("DW-14", "DW-42")
async def test_a_result_that_is_no_document_is_never_stored(start: Boot) -> None:
    async def body(params: Document, step: Step) -> Document:
        if len(host.runners.started) == 1:
            step.raw(["begin", 0, "a", 1, None])
            step.raw(["done", 1, "a", 1, '{"b":1,"a":2}'])
            await asyncio.Event().wait()
        return await step.do("a", Effects().of("a", {"ok": 1}))

    host = await start(Flow=body)
    await host.create()
    await host.idle()
    assert await host.output() == {"ok": 1}


@pytest.mark.req("DW-21")
async def test_a_return_value_that_is_no_document_ends_as_run_threw(start: Boot) -> None:
    async def body(params: Document, step: Step) -> Document:
        step.raw(["return", "[1]"])
        await asyncio.Event().wait()
        return None

    host = await start(Flow=body)
    await host.create()
    await host.idle()
    assert (await host.status()).reason == "run_threw"


async def test_results_beyond_four_mebibytes_are_fetched_by_name(start: Boot) -> None:
    big = "x" * 1_000_000

    async def body(params: Document, step: Step) -> Document:
        total = 0
        for number in range(6):
            found = await step.do(f"s{number}", Effects().of("s", {"n": number, "t": big}))
            total += (found or {})["n"]
        await step.sleep("nap", 1)
        return {"total": total}

    host = await start(Flow=body)
    await host.create()
    await host.advance(1)
    assert await host.output() == {"total": 15}
    assert [record.state for record in host.runners.last.start.steps] == ["succeeded"] * 4 + ["large"] * 2 + [
        "succeeded"
    ]


@pytest.mark.req("DW-32")
async def test_an_isolate_may_ask_again_for_any_settled_outcome(start: Boot) -> None:
    async def body(params: Document, step: Step) -> Document:
        await step.do("good", Effects().of("good", {"n": 1}))
        answers = [await step.ask("need", "good")]
        with pytest.raises(StepFailed):
            await step.do("bad", Effects(bad=1).of("bad"))
        answers.append(await step.ask("need", "bad"))
        return {"answers": [list(answer) for answer in answers]}

    host = await start(Flow=body)
    await host.create()
    await host.idle()
    assert await host.output() == {"answers": [["done", '{"n":1}'], ["failed", "bad failed 1"]]}


@pytest.mark.req("DW-10")
async def test_an_instance_starts_although_its_creator_has_left(start: Boot) -> None:
    """W03"""
    host = await start(Flow=waits_for_go)
    await host.idle()
    creator = asyncio.create_task(host.create())
    await asyncio.sleep(0)
    creator.cancel()
    await host.executing()
    await host.idle()
    assert (await host.status()).status == "waiting"


@pytest.mark.req("DW-42")
@pytest.mark.parametrize("frame", [["done", 1, "b", 1, None], ["failed", 1, "b", 1, "x"], ["done", 1, "a", 2, None]])
async def test_a_result_of_another_step_than_the_one_in_progress_commits_nothing(start: Boot, frame: list[Any]) -> None:
    async def body(params: Document, step: Step) -> Document:
        if len(host.runners.started) == 1:
            step.raw(["begin", 0, "a", 1, None])
            step.raw(frame)
            await asyncio.Event().wait()
        return await step.do("a", Effects().of("a", {"ok": 1}))

    host = await start(Flow=body)
    await host.create()
    await host.idle()
    assert await host.output() == {"ok": 1}
    history = await host.history()
    assert "impossible frame" in (history.contexts[0].ending or "")


async def steps_once(params: Document, step: Step) -> Document:
    return await step.do("s", Effects().of("s", {"n": 1}))


@pytest.mark.req("DW-35")
async def test_an_ended_session_is_freed_without_a_collection(start: Boot) -> None:
    """Collections stop every thread of the host, and with them its marks, for as long as there is much to look at."""
    host = await start(Flow=steps_once)
    gc.collect()
    gc.disable()
    try:
        await host.create()
        await host.idle()
        session = weakref.ref(host.runners.last.on_frame.__self__)  # type: ignore[attr-defined]
        host.runners.started.clear()
        await host.idle()
        assert session() is None
    finally:
        gc.enable()
