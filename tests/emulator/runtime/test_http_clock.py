"""Contract time in HTTP handlers: on a controlled clock they see what the host dates by, else nothing is replaced (C07)."""

import asyncio
import os
import signal
import time

import pytest

from emulator.runtime.gateway import clock_text
from host.model.time import ClockMode, ClockState, ControlledClock
from tests.emulator.runtime.conftest import NOW_MS
from tests.emulator.runtime.gateways import Ingress, handler
from tests.emulator.runtime.test_isolate_clock import PROBE

pytestmark = pytest.mark.req("DW-41")

DAY_MS = 86_400_000
SHOW = "return Response.json({ top, now: Date.now(), made: new Date().getTime(), performance: performance.now() });"
TOP = "const top = Date.now();"
NATIVE = (
    "return Response.json([Date, Date.now, File, performance.now].map((f) => String(f).includes('[native code]')));"
)
HOLD = (
    "if (request.url.endsWith('/begun')) return Response.json(release !== undefined);"
    "const first = Date.now(); if (request.url.endsWith('/release')) { release(); return Response.json(first); }"
    "await new Promise((resolve) => { release = resolve; }); return Response.json([first, Date.now()]);"
)


async def ages_ms(ingress: Ingress) -> tuple[float, float]:
    """How far the handler's two `Date`s are behind the host's clock."""
    shown = await ingress.json()
    assert isinstance(shown, dict)
    now_ms = ingress.clock.now_ms()
    return now_ms - float(str(shown["now"])), now_ms - float(str(shown["made"]))


async def test_on_the_system_clock_nothing_is_replaced(ingress: Ingress) -> None:
    await ingress.serve_handler(NATIVE)
    assert await ingress.json() == [True] * 4


async def test_every_source_of_time_in_a_handler_gives_contract_time(ingress: Ingress) -> None:
    ingress.clock.freeze()
    ingress.clock.move_to(NOW_MS * 2)
    source = 'import { probe } from "/app/probe.js"; const top = probe();'
    files = {"main.js": handler("return Response.json([top, probe()]);", source.replace("/app", "")), "probe.js": PROBE}
    await ingress.serve((await ingress.version("v", files), 1))
    shown = await ingress.json()
    assert isinstance(shown, list)
    for found in shown:
        assert isinstance(found, dict)
        same = ("now", "made", "called", "made2", "sub", "file", "performance")
        assert {found[name] for name in same} == {NOW_MS * 2}
        assert found["temporal"] in ("none", str(NOW_MS * 2))
        assert (found["fixed"], found["fileOf"], found["formatOf"]) == ("2001-02-03T00:00:00.000Z", 5, "2001-02-03")


async def test_a_change_is_seen_by_the_next_request_and_by_requests_under_way(ingress: Ingress) -> None:
    ingress.clock.freeze()
    begun_ms = ingress.clock.now_ms()
    await ingress.serve_handler(HOLD, "let release;")
    held = asyncio.create_task(ingress.json("/held"))
    async with asyncio.timeout(20):
        while not await ingress.json("/begun"):
            await asyncio.sleep(0.002)
    for _ in range(2):
        ingress.clock.move_to(ingress.clock.now_ms() + DAY_MS)
        await ingress.gateway.follow_clock()
    assert await ingress.json("/release") == begun_ms + 2 * DAY_MS
    assert await held == [begun_ms, begun_ms + 2 * DAY_MS]


async def test_code_made_for_one_kind_of_clock_is_kept_apart_from_the_other(ingress: Ingress) -> None:
    await ingress.serve_handler("return Response.json([top, Date.now(), ++count]);", TOP + "let count = 0;")
    real = await ingress.json()
    assert isinstance(real, list)
    assert abs(float(str(real[1])) - time.time() * 1000) < 60_000
    ingress.clock.freeze()
    ingress.clock.move_to(NOW_MS * 2)
    await ingress.gateway.follow_clock()
    assert await ingress.json() == [NOW_MS * 2, NOW_MS * 2, 1]
    assert await ingress.json() == [NOW_MS * 2, NOW_MS * 2, 2]


async def test_a_thawed_clock_goes_on_in_handlers_too(ingress: Ingress) -> None:
    ingress.clock.freeze()
    ingress.clock.move_to(NOW_MS * 2)
    await ingress.serve_handler(SHOW, TOP)
    assert await ages_ms(ingress) == (0, 0)
    ingress.clock.thaw()
    await ingress.gateway.follow_clock()
    for _ in range(2):
        for age_ms in await ages_ms(ingress):
            assert 0 <= age_ms < 30_000
        await asyncio.sleep(0.01)
    ingress.clock.move_to(ingress.clock.now_ms() + DAY_MS)
    await ingress.gateway.follow_clock()
    for age_ms in await ages_ms(ingress):
        assert 0 <= age_ms < 30_000


async def test_a_successor_of_the_gateway_goes_by_the_same_clock(ingress: Ingress) -> None:
    ingress.clock.freeze()
    await ingress.serve_handler(SHOW, TOP)
    assert await ages_ms(ingress) == (0, 0)
    assert ingress.gateway.pid is not None
    os.kill(ingress.gateway.pid, signal.SIGKILL)
    ingress.clock.move_to(NOW_MS * 2)
    await ingress.gateway.follow_clock()
    assert await ages_ms(ingress) == (0, 0)


@pytest.mark.req("WD-07")
async def test_retiring_a_version_ends_what_it_runs_by_either_kind_of_clock(ingress: Ingress) -> None:
    await ingress.serve_handler("ctx.waitUntil(new Promise(() => {})); return Response.json(Date.now());")
    await ingress.json()
    ingress.clock.freeze()
    await ingress.gateway.follow_clock()
    await ingress.json()
    assert await ingress.gateway.is_executing("v1")
    await ingress.serve()
    assert (await ingress.gateway.retire("v1")).kind == "ack"
    assert not await ingress.gateway.is_executing("v1")


async def test_nobody_outside_can_set_the_clock_of_an_isolate(ingress: Ingress) -> None:
    ingress.clock.freeze()
    await ingress.serve_handler(SHOW, TOP)
    for host in ("clock", "load", "running"):
        assert (await ingress.client.get("/frozen/1", headers={"host": host})).status_code == 404
    assert await ages_ms(ingress) == (0, 0)


def test_the_clock_is_told_in_one_word() -> None:
    assert clock_text(ControlledClock()) == "system"
    assert clock_text(ControlledClock.frozen(5)) == "frozen/5"
    assert clock_text(ControlledClock(ClockState(ClockMode.ADVANCED, 7))) == "ahead/7"
