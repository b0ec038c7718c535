"""What people are told when the host loses a context or ends an instance by itself: once, and in no word of app code."""

import asyncio
from collections.abc import Callable

import pytest

from emulator.workflow.due import LIFETIME_MS
from emulator.workflow.surroundings import INTENDED
from host.model.faults import FaultPoints
from tests.emulator.workflow.bodies import never_ends, waits_for_go
from tests.emulator.workflow.conftest import Boot
from tests.emulator.workflow.hosts import WORKER, Host
from tests.emulator.workflow.isolates import Body, Document, Step

OF_APP = "word of honour"


def told(host: Host) -> list[str]:
    """The sentences, each of which names instance, context and Version of what executed last."""
    last = host.runners.last.start
    assert {each.instance_id for each in host.notices} <= {"i"}
    assert all((each.worker_uid, each.version_uid) == (WORKER, "v1") for each in host.notices)
    assert not host.notices or host.notices[-1].context_id == last.context_id
    assert OF_APP not in str(host.notices)
    return [each.sentence for each in host.notices]


@pytest.mark.req("DW-39")
async def test_each_death_is_told_and_the_third_with_the_end_it_brings(start: Boot) -> None:
    host = await start(Flow=never_ends)
    await host.create()
    for number in (1, 2, 3):
        await host.executing(contexts=number, steps=1)
        host.runners.last.die("it spun", OF_APP)
    await host.idle()
    on = "it spun; it goes on from its history in a new context"
    end = "it spun; the instance ends as run_threw: the third time at the same point of its history"
    assert told(host) == [on, on, end]
    assert [each.context_id for each in host.notices] == [each.start.context_id for each in host.runners.started]
    assert OF_APP in str((await host.status()).message)  # its own people may read it there


@pytest.mark.req("DW-39")
async def test_a_death_beside_other_contexts_is_told_too(start: Boot) -> None:
    host = await start(Flow=never_ends)
    await host.create()
    await host.executing(steps=1)
    host.runners.last.die("its neighbour spun", is_own_fault=False)
    await host.until(lambda: bool(host.notices))
    assert [each.sentence for each in host.notices] == [
        "its neighbour spun; it goes on from its history in a new context"
    ]


class DyingAt(FaultPoints):
    """At a point the last context dies."""

    def __init__(self, point: str) -> None:
        super().__init__()
        self.point = point
        self.die: Callable[[], None] = lambda: None

    def reach(self, name: str) -> None:
        if name == self.point:
            self.die()


@pytest.mark.req("DW-17", "DW-39")
async def test_a_death_after_the_end_was_decided_promises_no_other_context(start: Boot) -> None:
    faults = DyingAt(INTENDED)
    host = await start(Flow=never_ends, faults=faults)
    faults.die = lambda: host.runners.last.die("it spun")
    await host.create()
    await host.executing(steps=1)
    await host.terminate()
    assert (await host.status()).status == "terminated"
    assert told(host) == ["it spun"]


@pytest.mark.req("DW-42")
async def test_a_forged_frame_is_told_without_its_text(start: Boot) -> None:
    async def body(params: Document, step: Step) -> Document:
        if len(host.runners.started) == 1:
            host.runners.last.emit(f'["{OF_APP}"]')
            await asyncio.Event().wait()
        return None

    host = await start(Flow=body)
    await host.create()
    await host.idle()
    assert [each.sentence for each in host.notices] == [
        "impossible frame; it goes on from its history in a new context"
    ]


async def _too_many(params: Document, step: Step) -> Document:
    for number in range(1024):
        await step.sleep(f"{OF_APP} {number}", 0)
    await step.sleep("one more", 0)
    return None


async def _overlap(params: Document, step: Step) -> Document:
    step.raw(["begin", 0, OF_APP, 1, None])
    await step.ask("sleep", f"{OF_APP} too", 5)
    return None


async def _unsettled(params: Document, step: Step) -> Document:
    step.raw(["begin", 0, OF_APP, 1, None])
    return None


async def _mismatch(params: Document, step: Step) -> Document:
    step.raw(["mismatch", OF_APP])
    await asyncio.Event().wait()
    return None


async def _no_document(params: Document, step: Step) -> Document:
    step.raw(["return", OF_APP])
    await asyncio.Event().wait()
    return None


_MISMATCH = "step_definition_mismatch: steps overlapped, were left unsettled or changed their kind"


@pytest.mark.req("DW-21", "DW-31", "DW-33")
@pytest.mark.parametrize(
    ("body", "end"),
    [
        (_too_many, "step_limit_exceeded: a history has at most 1024 step names"),
        (_overlap, _MISMATCH),
        (_unsettled, _MISMATCH),
        (_mismatch, _MISMATCH),
        (_no_document, "run_threw: the return value of run is no document"),
    ],
)
async def test_an_end_that_the_host_decides_is_told_by_its_reason_alone(start: Boot, body: Body, end: str) -> None:
    host = await start(Flow=body)
    await host.create()
    async with asyncio.timeout(30):
        await host.engine.idle()
    assert told(host) == [f"the instance ends as {end}"]


@pytest.mark.req("DW-12")
async def test_what_app_code_does_by_itself_is_told_by_its_own_lines_only(start: Boot) -> None:
    async def fail() -> Document:
        raise RuntimeError(OF_APP)

    async def throws(params: Document, step: Step) -> Document:
        raise RuntimeError(OF_APP)

    async def fails(params: Document, step: Step) -> Document:
        return await step.do("pay", fail)

    host = await start(Flow=throws)
    await host.create("thrown")
    await host.idle()
    host.runners.bodies["Flow"] = fails
    await host.create("failed")
    await host.idle()
    host.runners.bodies["Flow"] = waits_for_go
    await host.create("late")
    await host.advance(60)
    reasons = [(await host.status(each)).reason for each in ("thrown", "failed", "late")]
    assert (reasons, host.notices) == (["run_threw", "step_failed", "run_threw"], [])


@pytest.mark.req("DW-33")
async def test_the_end_of_a_lifetime_is_told_with_what_executed_then(start: Boot) -> None:
    host = await start(Flow=never_ends)
    await host.create()
    await host.executing(steps=1)
    host.clock.move_to(host.clock.now_ms() + LIFETIME_MS)
    await host.becomes("errored")
    assert told(host) == ["the instance ends as lifetime_exceeded: it did not end within 31536000 seconds"]


@pytest.mark.req("DW-33")
async def test_the_end_of_a_lifetime_of_a_sleeper_is_told_without_a_context(start: Boot) -> None:
    async def sleeps(params: Document, step: Step) -> Document:
        await step.sleep("long", 1)
        await step.sleep("longer", 31_536_000)
        return None

    host = await start(Flow=sleeps)
    await host.create()
    await host.advance(LIFETIME_MS / 1000)
    assert (await host.status()).reason == "lifetime_exceeded"
    assert [(each.version_uid, each.context_id, each.instance_id) for each in host.notices] == [(None, None, "i")]
