"""Events are accepted once, in order, and reach the wait they were accepted for."""

import asyncio

import pytest

from emulator.workflow import ErrorName, InstanceRefused
from tests.emulator.workflow.bodies import waits_for_go
from tests.emulator.workflow.conftest import Boot
from tests.emulator.workflow.isolates import Document, Step, WaitTimeout


@pytest.mark.req("DW-36")
async def test_a_wait_that_timed_out_does_not_swallow_the_next_event(start: Boot) -> None:
    """E01"""

    async def body(params: Document, step: Step) -> Document:
        try:
            await step.wait("first", "go", 1)
        except WaitTimeout:
            return await step.wait("second", "go", 60)
        return None

    host = await start(Flow=body)
    await host.create()
    await host.advance(2)
    await host.send("go", {"n": 7})
    await host.idle()
    assert await host.output() == {"n": 7}
    assert [step.state for step in (await host.history()).steps] == ["timeout", "succeeded"]


@pytest.mark.req("DW-36")
@pytest.mark.parametrize("turns", range(12))
async def test_an_event_sent_at_any_moment_before_its_wait_is_not_missed(start: Boot, turns: int) -> None:
    """E03"""

    async def body(params: Document, step: Step) -> Document:
        async def effect() -> Document:
            return None

        await step.do("one", effect)
        await step.sleep("nap", 2)
        return await step.wait("go", "go", 60)

    host = await start(Flow=body)
    await host.create()
    for _ in range(turns):
        await asyncio.sleep(0)
    await host.send("go", {"n": turns})
    await host.advance(2)
    assert await host.output() == {"n": turns}


@pytest.mark.req("DW-36", "DW-16")
async def test_waits_take_events_in_order_of_acceptance_and_again_on_replay(start: Boot) -> None:
    """E05"""

    async def body(params: Document, step: Step) -> Document:
        got = [(await step.wait(f"w{n}", "n", 60) or {})["n"] for n in (1, 2, 3)]
        await step.sleep("replay", 5)
        return {"got": got}

    host = await start(Flow=body)
    await host.create()
    await asyncio.gather(*(host.send("n", {"n": n}) for n in (1, 2, 3)))
    await host.advance(5)
    assert await host.output() == {"got": [1, 2, 3]}
    assert (await host.history()).events == ()


@pytest.mark.req("DW-16")
async def test_an_event_sent_before_its_instance_exists_is_refused_and_forgotten(start: Boot) -> None:
    """E08"""
    host = await start(Flow=waits_for_go)
    with pytest.raises(InstanceRefused) as refused:
        await host.send("go", {"n": 1})
    assert refused.value.name is ErrorName.UNKNOWN_INSTANCE
    await host.create()
    await host.idle()
    assert (await host.status()).status == "waiting"


@pytest.mark.req("DW-16")
async def test_an_ended_instance_accepts_no_event_and_keeps_none(start: Boot) -> None:
    host = await start(Flow=waits_for_go)
    await host.create()
    await host.send("other", {"n": 0})
    await host.send("go", {"n": 1})
    await host.idle()
    assert await host.output() == {"got": 1}
    assert (await host.history()).events == ()
    with pytest.raises(InstanceRefused) as refused:
        await host.send("go", {"n": 2})
    assert refused.value.name is ErrorName.INSTANCE_TERMINAL


@pytest.mark.req("DW-36")
@pytest.mark.parametrize(("late_ms", "outcome"), [(0, {"got": 1}), (1, None)])
async def test_a_wait_is_decided_by_the_instant_of_acceptance(start: Boot, late_ms: int, outcome: Document) -> None:
    """subtle-points, Workflows 3: the timer has not run when the event is accepted."""

    async def body(params: Document, step: Step) -> Document:
        try:
            first = await step.wait("first", "go", 10)
        except WaitTimeout:
            return {"late": (await step.wait("second", "go", 60) or {})["n"]}
        return {"got": (first or {})["n"]}

    host = await start(Flow=body)
    await host.create()
    await host.idle()
    await host.engine._scheduler.stop()
    host.clock.move_to(host.clock.now_ms() + 10_000 + late_ms)
    await host.send("go", {"n": 1})
    host.engine.start()
    await host.idle()
    assert await host.output() == (outcome or {"late": 1})


@pytest.mark.req("DW-16", "DW-36")
async def test_handing_over_to_a_waiting_step_is_not_queueing(start: Boot) -> None:
    """subtle-points, Workflows 4"""
    host = await start(Flow=waits_for_go)
    await host.create()
    await host.idle()
    await asyncio.gather(*(host.send("x", {"n": n}) for n in range(1024)))
    with pytest.raises(InstanceRefused) as refused:
        await host.send("x")
    assert refused.value.name is ErrorName.EVENT_QUEUE_FULL
    await host.engine._scheduler.stop()
    await host.send("go", {"n": 1})
    with pytest.raises(InstanceRefused) as refused:
        await host.send("go", {"n": 2})
    assert refused.value.name is ErrorName.EVENT_QUEUE_FULL
    host.engine.start()
    await host.idle()
    assert await host.output() == {"got": 1}


@pytest.mark.req("DW-16")
async def test_queued_bytes_are_bounded_as_canonical_text(start: Boot) -> None:
    host = await start(Flow=waits_for_go)
    await host.create()
    frame = len('{"payload":{"t":""},"type":"x"}')
    with pytest.raises(InstanceRefused) as refused:
        await host.send("x", {"t": "y" * (1_048_576 - frame + 1)})
    assert refused.value.name is ErrorName.EVENT_QUEUE_FULL
    await host.send("x", {"t": "y" * (1_048_576 - frame)})
    with pytest.raises(InstanceRefused):
        await host.send("x")


@pytest.mark.req("DW-15", "DW-16")
@pytest.mark.parametrize(
    ("event_type", "payload", "name"),
    [
        ("", None, ErrorName.TYPE_ERROR),
        ("x" * 257, None, ErrorName.TYPE_ERROR),
        ("go", "[1]", ErrorName.TYPE_ERROR),
        ("go", '{"a":"' + "x" * 1_048_576 + '"}', ErrorName.DOCUMENT_TOO_LARGE),
    ],
)
async def test_a_malformed_event_is_refused(start: Boot, event_type: str, payload: str | None, name: ErrorName) -> None:
    host = await start(Flow=waits_for_go)
    await host.create()
    with pytest.raises(InstanceRefused) as refused:
        await host.engine.instances.send_event("workflow-1", "i", event_type, payload)
    assert refused.value.name is name


@pytest.mark.req("DW-36")
async def test_the_first_call_of_a_wait_fixes_its_deadline_across_boots(start: Boot) -> None:
    async def body(params: Document, step: Step) -> Document:
        await step.wait("w", "go", 10 if len(boots) == 1 else 1000)
        return None

    boots = [1]
    host = await start(Flow=body)
    await host.create()
    await host.advance(5)
    await host.vanish()
    boots.append(2)
    host = await start(Flow=body)
    await host.advance(5)
    assert (await host.status()).reason == "run_threw"
    assert [step.state for step in (await host.history()).steps] == ["timeout"]


@pytest.mark.req("DW-16", "DW-36")
async def test_an_event_that_is_handed_over_is_not_queued_as_well(start: Boot) -> None:
    host = await start(Flow=waits_for_go)
    await host.create()
    await host.idle()
    await host.engine._scheduler.stop()
    await host.send("go", {"n": 1})
    history = await host.history()
    assert (history.events, history.steps[0].state) == ((), "succeeded")
    host.engine.start()
    await host.idle()
    assert await host.output() == {"got": 1}
