"""Cases from other systems' trackers that this engine must not share: attempts, failures, clocks, overlaps."""

import asyncio

import pytest

from emulator.workflow import InstanceRefused
from emulator.workflow.retention import KEPT_MS
from host.model.time import timestamp
from tests.emulator.workflow.bodies import Effects, waits_for_go
from tests.emulator.workflow.conftest import Boot
from tests.emulator.workflow.hosts import START_MS
from tests.emulator.workflow.isolates import Document, Step, StepFailed, WaitTimeout

HOUR_S = 3600
SEVEN = {"queued", "running", "sleeping", "waiting", "complete", "errored", "terminated"}


@pytest.mark.req("DW-12", "DW-13")
async def test_only_the_seven_statuses_are_seen_with_output_and_error_in_their_place(start: Boot) -> None:
    """W10"""

    async def body(params: Document, step: Step) -> Document:
        await step.do("one", Effects().of("one"))
        await step.sleep("nap", 5)
        await step.wait("go", "go", 60)
        if (params or {}).get("throws"):
            raise RuntimeError("no")
        return {"n": 1}

    host = await start(Flow=body)
    seen: dict[str, list[str]] = {}
    for identifier in ("complete", "errored", "terminated"):
        await host.create(identifier, {"throws": 1} if identifier == "errored" else None)
        seen[identifier] = [(await host.status(identifier)).status]
    for move in (host.idle(), host.advance(5), *(host.send("go", None, each) for each in ("complete", "errored"))):
        await move
        for identifier, statuses in seen.items():
            statuses.append((await host.status(identifier)).status)
    await host.terminate("terminated")
    await host.idle()
    for identifier, statuses in seen.items():
        status = await host.status(identifier)
        assert {*statuses, status.status} <= SEVEN and {"sleeping", "waiting"} < set(statuses)
        assert status.status == identifier
        assert (status.output_text is not None) == (identifier == "complete")
        assert (status.reason is not None) == (identifier == "errored")


@pytest.mark.req("DW-31")
async def test_two_steps_at_once_end_the_run_and_no_replay_runs_an_effect_twice(start: Boot) -> None:
    """R01"""
    effects = Effects()

    async def body(params: Document, step: Step) -> Document:
        await effects.of("first")()
        step.raw(["begin", 0, "first", 1, None])
        step.raw(["begin", 0, "second", 1, None])
        await step.ask("done", "first", 1, None)
        await effects.of("after")()
        return None

    host = await start(Flow=body)
    await host.create()
    await host.idle()
    assert (await host.status()).reason == "step_definition_mismatch"
    await host.vanish()
    host = await start(Flow=body)
    await host.advance(HOUR_S)
    assert (await host.status()).reason == "step_definition_mismatch"
    assert effects.runs == {"first": 1}


@pytest.mark.req("DW-32", "DW-38")
async def test_a_step_that_failed_for_good_fails_from_history_after_a_kill(start: Boot) -> None:
    """R06"""
    effects, caught = Effects(pay=9), []

    async def body(params: Document, step: Step) -> Document:
        try:
            await step.do("pay", effects.of("pay"))
        except StepFailed as error:
            caught.append((error.name, str(error)))
        await step.sleep("nap", 5)
        return None

    host = await start(Flow=body)
    await host.create()
    await host.idle()
    await host.vanish()
    host = await start(Flow=body)
    await host.advance(5)
    assert await host.output() is None
    assert effects.runs["pay"] == 1
    assert caught == [("pay", "pay failed 1")] * 2


@pytest.mark.req("DW-34")
@pytest.mark.parametrize(("policy", "most"), [({"maxAttempts": 3}, 3), ({"maxAttempts": 1}, 1), (None, 1)])
async def test_max_attempts_counts_attempts_and_history_shows_each(start: Boot, policy: Document, most: int) -> None:
    """B02"""
    effects = Effects(pay=9)

    async def body(params: Document, step: Step) -> Document:
        return await step.do("pay", effects.of("pay"), policy)

    host = await start(Flow=body)
    await host.create()
    await host.idle()
    assert (await host.status()).reason == "step_failed"
    assert effects.runs["pay"] == most
    [step] = (await host.history()).steps
    assert [(each.number, each.outcome, each.message) for each in step.attempts] == [
        (number, "failed", f"pay failed {number}") for number in range(1, most + 1)
    ]


@pytest.mark.req("DW-34")
async def test_three_attempts_through_a_kill_in_the_backoff_are_recorded_with_their_times(start: Boot) -> None:
    """B05"""
    effects = Effects(pay=2)

    async def body(params: Document, step: Step) -> Document:
        return await step.do("pay", effects.of("pay"), {"maxAttempts": 5, "initialDelaySeconds": 60})

    host = await start(Flow=body)
    await host.create()
    await host.advance(60 + 40)
    await host.vanish()
    host = await start(Flow=body)
    await host.advance(20)
    assert await host.output() is None
    [step] = (await host.history()).steps
    times = [timestamp(START_MS + number * 60_000) for number in range(3)]
    assert [(each.number, each.outcome, each.begun_at, each.settled_at) for each in step.attempts] == [
        (1, "failed", times[0], times[0]),
        (2, "failed", times[1], times[1]),
        (3, "succeeded", times[2], times[2]),
    ]
    assert effects.runs["pay"] == 3


@pytest.mark.req("DW-38", "DW-32")
@pytest.mark.parametrize("turns", [0, 5, 20, 60])
async def test_a_clean_up_step_runs_once_even_after_a_kill_before_the_end(start: Boot, turns: int) -> None:
    """B08"""
    effects = Effects(pay=9)

    async def body(params: Document, step: Step) -> Document:
        try:
            await step.do("pay", effects.of("pay"))
        except StepFailed:
            await step.do("clean", effects.of("clean"))
            raise
        return None

    host = await start(Flow=body)
    await host.create()
    await host.until(lambda: effects.runs["clean"] > 0)
    for _ in range(turns):
        await asyncio.sleep(0)
    await host.vanish()
    host = await start(Flow=body)
    await host.idle()
    assert (await host.status()).reason == "step_failed"
    assert effects.runs["pay"] == 1
    assert effects.runs["clean"] <= 2  # the kill may lie between its effect and the commit
    [_, clean] = (await host.history()).steps
    assert [attempt.number for attempt in clean.attempts] == [1]


@pytest.mark.req("DW-34", "DW-35", "DW-36", "DW-40")
async def test_a_sleep_a_retry_a_timeout_and_retention_fall_due_on_one_clock(start: Boot) -> None:
    """C01"""

    async def body(params: Document, step: Step) -> Document:
        match (params or {})["kind"]:
            case "sleep":
                await step.sleep("nap", 24 * HOUR_S)
            case "retry":
                policy = {"maxAttempts": 3, "initialDelaySeconds": 12 * HOUR_S}
                await step.do("pay", effects.of("pay"), policy)
            case "wait":
                with pytest.raises(WaitTimeout):
                    await step.wait("go", "go", 24 * HOUR_S)
        return {"at": step.now_ms}

    effects = Effects(pay=2)
    host = await start(Flow=body)
    await host.create("old", {"kind": "none"})
    await host.advance(KEPT_MS // 1000 - 24 * HOUR_S)
    now_ms = host.clock.now_ms()
    for kind in ("sleep", "retry", "wait"):
        await host.create(kind, {"kind": kind})
    await host.advance(24 * HOUR_S - 0.001)
    assert {(await host.status(kind)).status for kind in ("sleep", "retry")} == {"sleeping"}
    assert (await host.status("old")).status == "complete"
    await host.advance(0.001)
    for kind in ("sleep", "retry", "wait"):
        assert await host.output(kind) == {"at": now_ms + 24 * HOUR_S * 1000}
        history = await host.history(kind)
        instants = [history.steps[0].begun_at, history.steps[0].settled_at, history.instance.updated_at]
        assert instants == sorted(instants, key=str)
    with pytest.raises(InstanceRefused, match="no instance"):
        await host.status("old")


@pytest.mark.req("DW-35")
async def test_seven_days_pass_without_seven_days_of_waiting_and_not_a_millisecond_early(start: Boot) -> None:
    """C02"""

    async def body(params: Document, step: Step) -> Document:
        await step.sleep("week", 7 * 24 * HOUR_S)
        return None

    host = await start(Flow=body)
    await host.create()
    await host.advance(7 * 24 * HOUR_S - 0.001)
    assert (await host.status()).status == "sleeping"
    await host.advance(0.001)
    assert (await host.status()).status == "complete"


@pytest.mark.req("DW-35")
async def test_a_clock_that_nobody_moves_leaves_a_sleeper_asleep_and_says_until_when(start: Boot) -> None:
    """C04"""

    async def body(params: Document, step: Step) -> Document:
        await step.sleep("hour", HOUR_S)
        return None

    host = await start(Flow=body)
    await host.create()
    await host.idle()
    assert (await host.history()).instance.due_at == timestamp(START_MS + HOUR_S * 1000)
    assert await host.engine.next_due_ms() == START_MS + HOUR_S * 1000
    assert (await host.status()).status == "sleeping"


@pytest.mark.req("DW-34")
async def test_retries_in_one_advance_each_see_their_own_due_time_as_now(start: Boot) -> None:
    """C06"""
    seen: list[int] = []

    async def body(params: Document, step: Step) -> Document:
        async def effect() -> Document:
            seen.append(step.now_ms - START_MS)
            raise RuntimeError("no")

        return await step.do("pay", effect, {"maxAttempts": 4, "initialDelaySeconds": HOUR_S})

    host = await start(Flow=body)
    await host.create()
    await host.advance(3 * HOUR_S)
    assert seen == [number * HOUR_S * 1000 for number in range(4)]
    assert (await host.status()).reason == "step_failed"


@pytest.mark.req("DW-11", "DW-36")
async def test_five_hundred_instances_made_while_hosts_come_and_go_run_once_each(start: Boot) -> None:
    """R08"""
    effects = Effects()

    async def body(params: Document, step: Step) -> Document:
        await step.do("count", effects.of(str((params or {})["n"])))
        return None

    for number in range(10):
        host = await start(Flow=body)
        for each in range(50):
            await host.create(f"i{number}-{each}", {"n": number * 50 + each})
        await host.idle()
        await host.vanish()
    assert sorted(effects.runs.values()) == [1] * 500


@pytest.mark.req("DW-25")
async def test_an_effect_outside_a_step_is_repeated_by_each_replay(start: Boot) -> None:
    """A duty of the author (docs/workflows.md): the host cannot know of it."""
    outside = Effects()

    async def body(params: Document, step: Step) -> Document:
        await outside.of("outside")()
        return await waits_for_go(params, step)

    host = await start(Flow=body)
    await host.create()
    await host.idle()
    await host.send("go", {"n": 1})
    await host.idle()
    assert outside.runs["outside"] == 2


@pytest.mark.req("DW-34", "DW-12")
@pytest.mark.parametrize(("delay_s", "status"), [(0, "queued"), (1, "sleeping")])
async def test_between_attempts_an_instance_is_queued_or_with_a_delay_asleep(
    start: Boot, delay_s: int, status: str
) -> None:
    released = asyncio.Event()

    async def body(params: Document, step: Step) -> Document:
        async def effect() -> Document:
            await released.wait()
            raise RuntimeError("no")

        return await step.do("pay", effect, {"maxAttempts": 2, "initialDelaySeconds": delay_s})

    host = await start(Flow=body)
    await host.create()
    await host.executing(steps=1)
    await host.engine._scheduler.stop()
    released.set()
    await host.until(lambda: not host.engine.executing())
    assert (await host.status()).status == status
    host.engine.start()
    await host.advance(delay_s or 1)
    assert (await host.status()).reason == "step_failed"
