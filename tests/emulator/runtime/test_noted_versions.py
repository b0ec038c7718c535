"""Handlers called on real workerd: nothing runs before whoever called has noted the Version that was picked."""

import asyncio

import pytest

from emulator.events import Ending, Handler, HandlerCall
from tests.emulator.runtime.gateways import DEADLINE_S, Ingress
from tests.emulator.runtime.test_event_handlers import schedule, serve, source

CALL = HandlerCall("app", Handler.SCHEDULED, '[0,"* * * * *"]')
COUNTING = source(before="let seen = 0;", scheduled="seen += 1;", fetch="return new Response(`${seen}`);")


@pytest.mark.req("MW-19", "WD-03")
async def test_no_code_runs_before_whoever_called_has_noted_the_version(ingress: Ingress) -> None:
    await serve(
        ingress, source(before="let seen = 0;", scheduled="seen += 1;", fetch="return new Response(`${seen}`);")
    )
    asked, may_go = asyncio.Event(), asyncio.Event()
    noted: list[str] = []

    async def note(version_uid: str) -> None:
        noted.append(version_uid)
        asked.set()
        await may_go.wait()

    calling = asyncio.create_task(ingress.gateway.call_handler(CALL, note))
    await asyncio.wait_for(asked.wait(), DEADLINE_S)
    assert (noted, await ingress.text()) == (["v1"], "0")
    may_go.set()
    assert (await asyncio.wait_for(calling, DEADLINE_S)).ending is Ending.RETURNED
    assert await ingress.text() == "1"


@pytest.mark.req("MW-19")
async def test_a_version_that_cannot_be_noted_runs_nothing_and_the_caller_is_told_why(ingress: Ingress) -> None:
    await serve(
        ingress, source(before="let seen = 0;", scheduled="seen += 1;", fetch="return new Response(`${seen}`);")
    )

    async def refuse(version_uid: str) -> None:
        raise ValueError("the disk is full")

    with pytest.raises(ValueError, match="the disk is full"):
        await asyncio.wait_for(ingress.gateway.call_handler(CALL, refuse), DEADLINE_S)
    assert await ingress.text() == "0"
    assert (await schedule(ingress)).ending is Ending.RETURNED
