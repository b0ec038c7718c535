"""Instances go from create to their end on real SQLite, whatever boots lie between."""

import asyncio

import pytest

from emulator.contexts import RunnersBusy
from emulator.workflow import ErrorName, InstanceRefused
from host.model.time import ControlledClock
from tests.emulator.workflow.bodies import Effects, never_ends, waits_for_go
from tests.emulator.workflow.conftest import Boot
from tests.emulator.workflow.isolates import Document, Step, StepFailed


@pytest.mark.req("DW-10", "DW-12", "DW-21", "DW-34")
async def test_an_instance_runs_its_steps_once_and_completes(start: Boot) -> None:
    effects = Effects()

    async def body(params: Document, step: Step) -> Document:
        assert params == {"order": 1}
        return {"charged": await step.do("charge", effects.of("charge", {"amount": 5}))}

    host = await start(Flow=body)
    assert await host.create(params={"order": 1}) == "i"
    await host.idle()
    assert await host.output() == {"charged": {"amount": 5}}
    assert effects.runs["charge"] == 1


@pytest.mark.req("DW-10", "DW-36")
async def test_undefined_is_kept_apart_from_an_empty_document(start: Boot) -> None:
    async def body(params: Document, step: Step) -> Document:
        assert params is None
        assert await step.do("nothing", Effects().of("nothing")) is None
        assert await step.wait("empty", "go", 5) is None
        return None

    host = await start(Flow=body)
    await host.create()
    await host.idle()
    await host.send("go")
    await host.idle()
    assert await host.output() is None


@pytest.mark.req("DW-23", "DW-35", "DW-39")
async def test_a_sleep_outlives_its_host_and_runs_on_at_its_own_deadline(start: Boot) -> None:
    effects = Effects()

    async def body(params: Document, step: Step) -> Document:
        await step.do("first", effects.of("first"))
        await step.sleep("nap", 30)
        await step.do("second", effects.of("second", {"at": step.now_ms}))
        return {"slept": True}

    host = await start(Flow=body)
    began_ms = host.clock.now_ms()
    await host.create()
    await host.advance(5)
    assert (await host.status()).status == "sleeping"
    await host.vanish()
    host = await start(Flow=body)
    await host.advance(24.999)
    assert (await host.status()).status == "sleeping"
    await host.advance(0.001)
    assert await host.output() == {"slept": True}
    assert effects.runs == {"first": 1, "second": 1}
    history = await host.history()
    assert [step.state for step in history.steps] == ["succeeded"] * 3
    assert history.steps[2].text == f'{{"at":{began_ms + 30_000}}}'
    assert [context.stop.kind for context in history.contexts if context.stop] == ["ack", "ack"]


@pytest.mark.req("DW-35")
async def test_a_sleep_of_zero_seconds_completes_in_the_same_context(start: Boot) -> None:
    async def body(params: Document, step: Step) -> Document:
        await step.sleep("none", 0)
        return None

    host = await start(Flow=body)
    await host.create()
    await host.idle()
    assert await host.output() is None
    assert len(host.runners.started) == 1


@pytest.mark.req("DW-34")
async def test_attempts_are_counted_and_a_delay_is_not_restarted_by_a_kill(start: Boot) -> None:
    effects = Effects(pay=2)
    seen: list[int] = []

    async def body(params: Document, step: Step) -> Document:
        seen.append(step.now_ms)
        policy = {"maxAttempts": 3, "initialDelaySeconds": 3600, "backoff": "exponential"}
        return await step.do("pay", effects.of("pay", {"paid": 1}), policy)

    host = await start(Flow=body)
    began_ms = host.clock.now_ms()
    await host.create()
    await host.advance(1800)
    assert (await host.status()).status == "sleeping"
    [step] = (await host.history()).steps
    assert [(a.number, a.outcome, a.message) for a in step.attempts] == [(1, "failed", "pay failed 1")]
    assert step.state == "pending"
    await host.vanish()
    host = await start(Flow=body)
    await host.advance(1800 + 7200)
    assert await host.output() == {"paid": 1}
    assert seen == [began_ms, began_ms + 3_600_000, began_ms + 10_800_000]
    assert effects.runs["pay"] == 3
    assert [len(step.attempts) for step in (await host.history()).steps] == [3]


@pytest.mark.req("DW-34", "DW-38")
async def test_the_last_failure_is_recorded_and_thrown_in_the_same_context_and_on_replay(start: Boot) -> None:
    effects = Effects(pay=9)
    caught: list[str] = []

    async def body(params: Document, step: Step) -> Document:
        try:
            await step.do("pay", effects.of("pay"), {"maxAttempts": 2})
        except StepFailed as error:
            caught.append(str(error))
            await step.do("clean", effects.of("clean"))
            await step.sleep("nap", 10)
            raise
        return None

    host = await start(Flow=body)
    await host.create()
    await host.advance(10)
    status = await host.status()
    assert (status.status, status.reason, status.message) == ("errored", "step_failed", "pay failed 2")
    assert caught == ["pay failed 2", "pay failed 2"]
    assert effects.runs == {"pay": 2, "clean": 1}
    assert len(host.runners.started) == 3


@pytest.mark.req("DW-34")
async def test_a_retry_without_delay_runs_at_once_in_a_fresh_context(start: Boot) -> None:
    effects = Effects(pay=1)

    async def body(params: Document, step: Step) -> Document:
        return await step.do("pay", effects.of("pay"), {"maxAttempts": 2})

    host = await start(Flow=body)
    await host.create()
    await host.idle()
    assert await host.output() is None
    assert len({context.start.context_id for context in host.runners.started}) == 2


@pytest.mark.req("DW-38")
async def test_a_thrown_error_that_is_no_recorded_step_failure_ends_as_run_threw(start: Boot) -> None:
    async def body(params: Document, step: Step) -> Document:
        raise StepFailed("never-run", "forged")

    host = await start(Flow=body)
    await host.create()
    await host.idle()
    status = await host.status()
    assert (status.status, status.reason, status.message) == ("errored", "run_threw", "forged")


@pytest.mark.req("DW-11", "DW-15")
async def test_of_two_creates_with_one_id_exactly_one_is_accepted_for_ever(start: Boot) -> None:
    """W01"""
    effects = Effects()

    async def body(params: Document, step: Step) -> Document:
        await step.do("count", effects.of("count"))
        return params

    host = await start(Flow=body)
    results = await asyncio.gather(
        host.create("dup-1", {"n": 1}), host.create("dup-1", {"n": 2}), return_exceptions=True
    )
    assert results[0] == "dup-1"
    assert isinstance(results[1], InstanceRefused) and results[1].name is ErrorName.INSTANCE_EXISTS
    await host.idle()
    assert await host.output("dup-1") == {"n": 1}
    assert effects.runs["count"] == 1
    with pytest.raises(InstanceRefused) as again:
        await host.create("dup-1")
    assert again.value.name is ErrorName.INSTANCE_EXISTS


@pytest.mark.req("DW-11")
async def test_an_omitted_id_is_issued_by_the_host(start: Boot) -> None:
    host = await start(Flow=waits_for_go)
    one, two = await host.create(None), await host.create(None)
    assert one != two
    assert await host.engine.instances.get("workflow-1", one) == one


@pytest.mark.req("DW-11")
async def test_asking_for_an_instance_that_was_never_made_makes_none(start: Boot) -> None:
    """W04"""
    host = await start(Flow=waits_for_go)
    instances = host.engine.instances
    asks = (
        instances.get("workflow-1", "never-made"),
        instances.status("workflow-1", "never-made"),
        instances.send_event("workflow-1", "never-made", "go", None),
        instances.terminate("workflow-1", "never-made"),
    )
    for ask in asks:
        with pytest.raises(InstanceRefused) as refused:
            await ask
        assert refused.value.name is ErrorName.UNKNOWN_INSTANCE
    assert await host.engine.inspection.instances() == ()


@pytest.mark.req("DW-11")
@pytest.mark.parametrize("identifier", ["", "x" * 257, "a\ud800"])
async def test_an_id_that_is_not_1_to_256_scalar_values_stores_nothing(start: Boot, identifier: str) -> None:
    """W08"""
    host = await start(Flow=waits_for_go)
    with pytest.raises(InstanceRefused) as refused:
        await host.create(identifier)
    assert refused.value.name is ErrorName.TYPE_ERROR
    assert await host.engine.inspection.instances() == ()


@pytest.mark.req("DW-11")
@pytest.mark.parametrize("identifier", ["x" * 256, "a/b c", "nul\0nul", "\U0001f600", "a?%:'\""])
async def test_any_other_id_works_in_every_operation(start: Boot, identifier: str) -> None:
    """W08"""
    host = await start(Flow=waits_for_go)
    assert await host.create(identifier) == identifier
    await host.idle()
    await host.send("go", {"n": 1}, identifier)
    await host.idle()
    assert await host.output(identifier) == {"got": 1}
    await host.terminate(identifier)
    assert (await host.history(identifier)).instance.instance_id == identifier


@pytest.mark.req("DW-15")
@pytest.mark.parametrize(
    ("params", "name"),
    [
        ("[]", ErrorName.INVALID_PARAMS),
        ('{"a": 1}', ErrorName.INVALID_PARAMS),
        ('{"a":"' + "x" * 1_048_570 + '"}', ErrorName.DOCUMENT_TOO_LARGE),
        ("{" + ",".join(f'"{n:04}":0' for n in range(1025)) + "}", ErrorName.INVALID_PARAMS),
    ],
)
async def test_params_that_are_no_document_are_refused_by_name(start: Boot, params: str, name: ErrorName) -> None:
    host = await start(Flow=waits_for_go)
    with pytest.raises(InstanceRefused) as refused:
        await host.engine.instances.create("workflow-1", "i", params)
    assert refused.value.name is name


@pytest.mark.req("DW-18", "DW-02")
async def test_a_create_without_a_ready_workflow_stores_nothing(start: Boot) -> None:
    host = await start(Flow=waits_for_go)
    await host.catalog.retire_deployment("deployment-1")
    with pytest.raises(InstanceRefused) as refused:
        await host.create()
    assert refused.value.name is ErrorName.BACKEND_UNAVAILABLE
    await host.deploy("v1", classes=("Other",))
    with pytest.raises(InstanceRefused):
        await host.create()
    await host.deploy("v1")
    await host.create()


@pytest.mark.req("DW-08", "WD-07")
async def test_without_a_deployment_instances_stay_and_go_on_once_there_is_one(start: Boot) -> None:
    async def body(params: Document, step: Step) -> Document:
        await step.sleep("nap", 10)
        return None

    host = await start(Flow=body)
    await host.create("asleep")
    await host.idle()
    await host.catalog.retire_deployment("deployment-1")
    await host.advance(20)
    assert (await host.status("asleep")).status == "sleeping"
    await host.deploy("v2")
    await host.idle()
    assert (await host.status("asleep")).status == "complete"
    assert [c.start.version.version_uid for c in host.runners.started] == ["v1", "v2"]


@pytest.mark.req("DW-23", "WD-03")
async def test_each_context_is_pinned_to_a_version_chosen_by_weight(start: Boot) -> None:
    points = iter([0.0, 0.6, 0.49, 0.5])

    async def body(params: Document, step: Step) -> Document:
        await step.sleep("nap", 10)
        return None

    host = await start("v1", "v2", Flow=body, random=lambda: next(points))
    await host.create("a")
    await host.idle()
    await host.create("b")
    await host.advance(10)
    assert [c.start.version.version_uid for c in host.runners.started] == ["v1", "v2", "v1", "v2"]


@pytest.mark.req("DW-33")
async def test_an_instance_ends_at_its_lifetime_and_a_longer_sleep_never_completes(start: Boot) -> None:
    """subtle-points, Workflows 2"""
    effects = Effects()

    async def body(params: Document, step: Step) -> Document:
        await step.sleep("long", 31_535_990)
        await step.sleep("s", 60)
        await step.do("after", effects.of("after"))
        return None

    host = await start(Flow=body)
    await host.create()
    await host.advance(31_535_990)
    assert (await host.status()).status == "sleeping"
    await host.advance(10)
    status = await host.status()
    assert (status.status, status.reason) == ("errored", "lifetime_exceeded")
    assert [(step.name, step.state) for step in (await host.history()).steps] == [
        ("long", "succeeded"),
        ("s", "pending"),
    ]
    assert effects.runs["after"] == 0


@pytest.mark.req("DW-33", "DW-39")
async def test_a_running_instance_is_stopped_at_its_lifetime(start: Boot) -> None:
    host = await start(Flow=never_ends)
    await host.create()
    await host.executing()
    host.clock.move_to(host.clock.now_ms() + 31_536_000_000)
    await host.idle()
    assert (await host.status()).reason == "lifetime_exceeded"
    assert host.runners.last.is_stopped


@pytest.mark.req("DW-39")
async def test_a_status_is_visible_only_after_the_stop_is_confirmed(start: Boot) -> None:
    async def body(params: Document, step: Step) -> Document:
        await step.sleep("nap", 10)
        return None

    host = await start(Flow=body)
    gate = host.runners.stop_gate = asyncio.Event()
    await host.create()
    await host.executing(steps=1)
    assert (await host.status()).status == "running"
    gate.set()
    await host.idle()
    assert (await host.status()).status == "sleeping"


async def test_a_host_that_closes_leaves_instances_to_be_replayed(start: Boot) -> None:
    host = await start(Flow=never_ends)
    await host.create()
    await host.executing(steps=1)
    await host.close()
    assert host.runners.last.is_stopped
    host = await start(Flow=_ends_at_once)
    await host.idle()
    assert (await host.status()).reason == "step_definition_mismatch"


async def test_contexts_beyond_the_bound_wait_in_due_order(start: Boot) -> None:
    host = await start(Flow=waits_for_go, max_contexts=1)
    host.runners.stop_gate = asyncio.Event()
    for identifier in ("a", "b", "c"):
        await host.create(identifier)
    await host.executing()
    assert len(host.runners.started) == 1
    host.runners.stop_gate.set()
    await host.idle()
    assert [context.start.instance_id for context in host.runners.started] == ["a", "b", "c"]


async def test_a_runner_that_is_not_to_be_had_is_asked_for_again(start: Boot) -> None:
    host = await start(Flow=waits_for_go, starts=False)
    host.runners.failures = [RunnersBusy("none"), RuntimeError("broken")]
    host.engine.start()
    await host.create()
    await host.idle()
    assert (await host.status()).status == "waiting"


async def test_the_clock_of_an_isolate_is_told_only_when_it_is_controlled(start: Boot, clock: ControlledClock) -> None:
    host = await start(Flow=waits_for_go)
    await host.create()
    await host.idle()
    assert host.runners.last.start.now_ms == clock.now_ms()


async def _ends_at_once(params: Document, step: Step) -> Document:
    return None
