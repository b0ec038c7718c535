"""One Version's code spins or eats memory: the others are answered, the logs say whose it was, and it is set apart."""

import asyncio
import logging
from pathlib import Path

import pytest

from emulator.runtime.app_log import AppLog
from emulator.runtime.process import Launcher
from tests.emulator.runtime.bundles import Bundler
from tests.emulator.runtime.gateways import DEADLINE_S, Ingress, handler
from tests.emulator.runtime.towns import SPIN, Minutes, Town, error_lines, settled

NEVER_S = 1e6
SPINS = {
    "a loop": "for (;;);",
    "microtasks without end": "const next = () => Promise.resolve().then(next); await next();",
}
HOG = "if (request.url.endsWith('/hog')) { const all = []; for (;;) all.push(new Array(2e7).fill(1.5)); }"


@pytest.mark.req("MW-14")
@pytest.mark.parametrize("kind", SPINS)
async def test_others_are_answered_while_code_spins(launcher: Launcher, bundler: Bundler, kind: str) -> None:
    """Nothing is killed here: connections that come are taken by somebody else."""
    ingress = Ingress(launcher, bundler, NEVER_S)
    town = Town(ingress, Minutes())
    await town.deploy("bad", f"if (request.url.endsWith('/spin')) {{ {SPINS[kind]} }} return new Response('fine');")
    await town.deploy("good", "return new Response('good');")
    first = ingress.gateway.pid
    spinning = asyncio.create_task(town.provoke("bad"))
    async with asyncio.timeout(DEADLINE_S):
        while len(ingress.gateway.pids) < 2:
            await asyncio.sleep(0.005)
        answers = [await town.ask(name) for name in ("good", "bad", "good")]
    assert answers == ["good", "fine", "good"]
    assert first in ingress.gateway.pids and not spinning.done()
    await ingress.close()
    await spinning


@pytest.mark.req("MW-14", "WD-04")
async def test_a_process_that_turns_again_goes_on_and_its_understudy_leaves(
    launcher: Launcher, bundler: Bundler
) -> None:
    """Code that computes for a while is neither killed nor does it lose its process."""
    ingress = Ingress(launcher, bundler, NEVER_S)
    compute = "let n = 0; while (n < 1.5e9) n++; return new Response('computed');"
    await ingress.serve_handler(compute)
    first = ingress.gateway.pid
    assert await ingress.text() == "computed"
    async with asyncio.timeout(DEADLINE_S):
        while ingress.gateway.pids != (first,):
            await asyncio.sleep(0.005)
    await ingress.serve((await ingress.version("v2", handler("return new Response('two');")), 10000))
    assert await ingress.text() == "two"
    await ingress.close()


@pytest.mark.req("MW-14")
async def test_the_logs_name_worker_version_and_reason(
    town: Town, said: AppLog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await town.deploy("bad", SPIN + "return new Response('fine');")
    await town.deploy("good", "return new Response('good');")
    with caplog.at_level(logging.WARNING):
        await town.provoke("bad")
        [line] = await error_lines(said, 1)
    assert (line.worker_uid, line.version_uid, line.level) == ("bad", "bad1", "error")
    why = "code ran for 0.2 s of processor time without a pause, so it was killed"
    assert line.message == (
        f"takohost: Worker bad, Version bad1: {why}; no other Version had requests under way there; "
        "it is now served by a process of its own for a minute"
    )
    assert f"Worker bad (bad), Version bad1: {why}" in caplog.text
    assert f"[bad1] error: {line.message}" in (tmp_path / "log" / "workerd.log").read_text()


@pytest.mark.req("MW-14")
async def test_a_suspect_alone_harms_nobody_else_and_is_released_in_time(town: Town) -> None:
    await town.deploy("bad", SPIN + "return new Response('fine');")
    await town.deploy("good", "return new Response('good');")
    await town.provoke("bad")
    await town.set_apart("bad1")
    assert (await town.ask("bad"), await town.ask("good")) == ("fine", "good")
    shared = town.gateway.pid
    await town.provoke("bad")
    assert (await town.ask("bad"), await town.ask("good")) == ("fine", "good")
    assert town.gateway.pid == shared
    town.time.skip(61)
    await town.set_apart()
    assert await town.ask("bad") == "fine"
    assert town.gateway.pid == shared


@pytest.mark.req("MW-14", "WD-04")
async def test_three_times_in_a_minute_is_until_the_next_deployment(town: Town, said: AppLog) -> None:
    await town.deploy("bad", SPIN + "return new Response('fine');")
    for _ in range(3):
        await town.provoke("bad")
        await town.set_apart("bad1")
    assert "until it is deployed anew" in (await error_lines(said, 3))[-1].message
    town.time.skip(3600)
    await town.deploy("other", "return new Response('other');")
    await town.set_apart("bad1")
    assert await town.ask("bad") == "fine"
    await town.deploy("bad", "return new Response('mended');")
    await town.set_apart()
    assert await town.ask("bad") == "mended"


@pytest.mark.req("MW-14", "WD-04")
async def test_deployed_anew_is_what_was_put_in_force_again_with_whatever_weights(town: Town) -> None:
    await town.deploy("bad", SPIN + "return new Response('fine');")
    await town.provoke("bad")
    await town.set_apart("bad1")
    await town.publish()
    await town.set_apart("bad1")
    [version] = [each.version for each in town.routes["bad"].versions]
    town.weigh("bad", (version, 1))
    await town.publish()
    await town.set_apart()
    assert await town.ask("bad") == "fine"


@pytest.mark.req("MW-14", "WD-04")
async def test_what_still_spins_in_a_ward_that_is_given_up_is_ended(town: Town) -> None:
    """Nobody would look at it any more, and it would burn a processor for ever."""
    await town.deploy("bad", SPIN + "await scheduler.wait(200); for (;;);")
    await town.provoke("bad")
    await town.set_apart("bad1")
    waiting = asyncio.create_task(town.provoke("bad", "/later"))
    async with asyncio.timeout(DEADLINE_S):
        while not await town.gateway.is_executing("bad1"):
            await asyncio.sleep(0.002)
    await town.deploy("bad", "return new Response('mended');")
    assert (dict(town.gateway.apart), len(town.gateway.pids)) == ({}, 2)
    await asyncio.wait_for(waiting, DEADLINE_S / 3)  # its client has more patience
    assert await town.ask("bad") == "mended"


@pytest.mark.req("MW-14")
async def test_among_several_suspects_the_guilty_one_is_found_by_itself(town: Town, said: AppLog) -> None:
    """One that waits is as suspect as the one that spins; alone, each shows what it is."""
    await town.deploy("bad", SPIN + "return new Response('fine');")
    await town.deploy("good", "await scheduler.wait(1e6); return new Response('good');")
    waiting = asyncio.create_task(town.provoke("good"))
    async with asyncio.timeout(DEADLINE_S):
        while not await town.gateway.is_executing("good1"):
            await asyncio.sleep(0.005)
    await town.provoke("bad")
    await waiting
    await town.set_apart("bad1", "good1")
    lines = await error_lines(said, 2)
    assert {line.version_uid for line in lines} == {"bad1", "good1"}
    assert all("2 Versions had requests under way there" in line.message for line in lines)
    await town.provoke("bad")
    [*_, last] = await error_lines(said, 3)
    assert (last.version_uid, "no other Version" in last.message) == ("bad1", True)


@pytest.mark.req("MW-14")
async def test_a_version_at_rest_is_no_suspect(town: Town, said: AppLog) -> None:
    await town.deploy("bad", SPIN + "return new Response('fine');")
    await town.deploy("good", "return new Response('good');")
    assert (await town.ask("good"), await town.ask("bad")) == ("good", "fine")
    await settled(town)
    await town.provoke("bad")
    [line] = await error_lines(said, 1)
    assert (line.version_uid, "no other Version" in line.message) == ("bad1", True)


@pytest.mark.req("MW-14")
async def test_a_kill_from_outside_is_nobodys_fault(town: Town, said: AppLog) -> None:
    await town.deploy("good", "return new Response('good');")
    assert await town.ask("good") == "good"
    first = town.gateway._post.process
    assert first is not None
    first.kill()
    await town.gateway._post.serving(after=first)
    assert await town.ask("good") == "good"
    assert (said.recent(), dict(town.gateway.apart)) == ((), {})


@pytest.mark.req("MW-14")
async def test_a_buffer_of_two_gigabytes_fails_in_the_code_that_asks_for_it(town: Town) -> None:
    body = "return new Response(String(new Uint8Array(2 ** 31 - 1).length));"
    await town.deploy("bad", f"if (request.url.endsWith('/hog')) {{ {body} }} return new Response('fine');")
    first = town.gateway.pid
    async with town.client("bad") as client:
        answer = await client.get("/hog")
    assert (answer.status_code, answer.text) == (500, "Internal Server Error\n")
    assert await town.ask("bad") == "fine"
    assert town.gateway.pid == first


@pytest.mark.req("MW-14")
async def test_a_heap_without_end_ends_its_process_and_is_told(
    launcher: Launcher, bundler: Bundler, said: AppLog
) -> None:
    ingress = Ingress(launcher, bundler, NEVER_S)
    town = Town(ingress, Minutes())
    await town.deploy("bad", HOG + "return new Response('fine');")
    await town.provoke("bad", "/hog")
    [line] = await error_lines(said, 1)
    assert (line.version_uid, "as it does when memory runs out" in line.message) == ("bad1", True)
    assert await town.ask("bad") == "fine"
    await ingress.close()
