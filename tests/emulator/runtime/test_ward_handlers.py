"""`scheduled` and `queue` calls of a Version set apart run in its own process, and end as they do among the others."""

import asyncio
import json
from dataclasses import replace

import pytest

from emulator.events import Ending, Handler, HandlerCall, HandlerEnd
from emulator.runtime.app_log import AppLog
from emulator.runtime.gateway_process import GatewayProcess
from host.ports import BackendUnavailable
from tests.emulator.runtime.gateways import DEADLINE_S
from tests.emulator.runtime.towns import Town, error_lines

CODE = """
let seen = null, release;
const act = async (what, batch) => {
  seen = what;
  if (what === "spin") for (;;);
  if (what === "throw") throw new Error("late");
  if (what === "hang") await new Promise((go) => { release = go; setTimeout(go, 600000); });
  if (batch !== undefined) await batch.acknowledgeAll();
};
export default {
  async fetch(request) {
    if (request.url.endsWith("/spin")) for (;;);
    if (request.url.endsWith("/release")) release();
    return Response.json(seen);
  },
  scheduled: (event) => act(event.cron),
  queue: (batch) => act(batch.queue, batch),
};
"""


class Calls:
    """A town whose Worker `app` has one Version, set apart, and `good` another; who was picked, in order."""

    def __init__(self, town: Town) -> None:
        self.town = town
        self.picked: list[str] = []

    async def call(self, what: str, handler: Handler = Handler.SCHEDULED) -> HandlerEnd:
        event = [0, what] if handler is Handler.SCHEDULED else ["d-1", "batch-1", what, [["a", 7, "AAH/", 1]]]
        call = HandlerCall("app", handler, json.dumps(event))
        return await asyncio.wait_for(self.town.gateway.call_handler(call, self._note), DEADLINE_S)

    async def _note(self, version_uid: str) -> None:
        self.picked.append(version_uid)

    @property
    def ward(self) -> GatewayProcess:
        """The process of the Version set apart."""
        [process] = self.town.gateway._wards.live
        return process

    async def executing(self) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not await self.ward.is_executing("app1"):
                await asyncio.sleep(0.002)


async def deploy(town: Town) -> None:
    one = replace(await town.ingress.version("app1", CODE), handlers=("fetch", "scheduled", "queue"))
    town.weigh("app", (one, 1))
    await town.deploy("good", "return new Response('good');")


@pytest.fixture
async def calls(town: Town) -> Calls:
    await deploy(town)
    await town.provoke("app")
    await town.set_apart("app1")
    return Calls(town)


@pytest.mark.req("MW-17", "MW-14")
@pytest.mark.parametrize("handler", Handler)
async def test_a_call_runs_where_the_version_is_served(calls: Calls, handler: Handler) -> None:
    assert await calls.call("here", handler) == HandlerEnd(Ending.RETURNED, "app1", None)
    assert await calls.town.ask("app") == '"here"'
    assert await calls.call("throw", handler) == HandlerEnd(Ending.THREW, "app1", "Error: late")
    assert calls.picked == ["app1", "app1"]
    assert calls.ward.pid != calls.town.gateway.pid


@pytest.mark.req("MW-14", "MW-17")
async def test_a_call_that_spins_ends_its_own_process_as_lost_and_counts_as_an_incident(
    calls: Calls, said: AppLog
) -> None:
    shared = calls.town.gateway.pid
    lost = HandlerEnd(Ending.LOST, "app1", "the process that ran it ended")
    assert await calls.call("spin", Handler.QUEUE) == lost
    assert await calls.call("spin") == lost
    assert (calls.picked, calls.town.gateway.pid) == (["app1", "app1"], shared)
    assert "until it is deployed anew" in (await error_lines(said, 3))[-1].message
    assert await calls.town.ask("good") == "good"


@pytest.mark.req("MW-14", "MW-17")
async def test_who_spins_was_told_before_its_code_ran(town_of_two: Calls) -> None:
    """Also when the host knows for long that code of the Version runs."""
    assert (await town_of_two.call("first")).ending is Ending.RETURNED
    end = await town_of_two.call("spin")
    assert (end.ending, end.version_uid) == (Ending.LOST, "app1")
    assert town_of_two.picked == ["app1", "app1"]


@pytest.fixture
async def town_of_two(town: Town) -> Calls:
    """The same with nobody set apart."""
    await deploy(town)
    return Calls(town)


@pytest.mark.req("WD-03", "MW-17")
async def test_the_weights_pick_first_and_then_the_process(town_of_two: Calls) -> None:
    town = town_of_two.town
    [first] = [each.version for each in town.routes["app"].versions]
    town.weigh("app", (first, 1), (replace(first, version_uid="app2"), 1))
    await town.publish()
    end = await town_of_two.call("spin")
    await town.set_apart(str(end.version_uid))
    town_of_two.picked.clear()
    ends = [await town_of_two.call("x") for _ in range(40)]
    assert [end.version_uid for end in ends if end.ending is Ending.RETURNED] == town_of_two.picked
    assert 5 < town_of_two.picked.count("app1") < 35


@pytest.mark.req("WD-03", "WV-09")
async def test_a_drain_waits_for_a_call_in_a_ward_and_starts_none(calls: Calls) -> None:
    running = asyncio.create_task(calls.call("hang"))
    await calls.executing()
    assert await calls.town.gateway.is_executing("app1")
    draining = asyncio.create_task(calls.town.gateway.drain())
    while not calls.town.gateway._is_draining:
        await asyncio.sleep(0)
    with pytest.raises(BackendUnavailable):
        await calls.call("x")
    assert not running.done() and not draining.done()
    calls.ward.kill()
    assert (await running).ending is Ending.LOST
    await asyncio.wait_for(draining, DEADLINE_S)
    assert calls.picked == ["app1"]


@pytest.mark.req("WD-03", "MW-17")
async def test_a_drain_that_begins_between_pick_and_start_starts_no_code(calls: Calls) -> None:
    post_of = calls.town.gateway._wards.post_of

    def drained(version_uid: str) -> object:
        calls.town.gateway._is_draining = True
        return post_of(version_uid)

    calls.town.gateway._wards.post_of = drained  # type: ignore[method-assign, assignment]
    with pytest.raises(BackendUnavailable):
        await calls.call("x")
    assert calls.picked == []
    assert await calls.town.ask("app") == "null"


@pytest.mark.req("WD-07")
async def test_a_retirement_cuts_a_call_in_a_ward(calls: Calls) -> None:
    running = asyncio.create_task(calls.call("hang"))
    await calls.executing()
    calls.town.weigh("app")
    await calls.town.publish()
    assert (await calls.town.gateway.retire("app1")).kind == "ack"
    assert await running == HandlerEnd(Ending.LOST, "app1", "retired by the host")


@pytest.mark.req("WD-03", "MW-17")
async def test_a_call_goes_on_when_its_version_is_set_free_and_the_next_runs_among_the_others(calls: Calls) -> None:
    running = asyncio.create_task(calls.call("hang"))
    await calls.executing()
    calls.town.time.skip(61)
    async with asyncio.timeout(DEADLINE_S):
        while calls.town.gateway.apart:
            await asyncio.sleep(0.002)
    assert (await calls.call("later")).ending is Ending.RETURNED
    assert await calls.town.ask("app") == '"later"'
    assert not running.done()
    calls.ward.kill()
    assert (await running).ending is Ending.LOST
    await calls.town.set_apart()


@pytest.mark.req("WD-03", "MW-17")
async def test_a_version_set_free_between_pick_and_start_is_kept_all_the_same(calls: Calls) -> None:
    calls.town.gateway._wards.post_of = lambda version_uid: None  # type: ignore[method-assign]
    assert await calls.call("kept") == HandlerEnd(Ending.RETURNED, "app1", None)
    assert not await calls.ward.is_executing("app1")
    assert await calls.town.ask("app") == "null"
