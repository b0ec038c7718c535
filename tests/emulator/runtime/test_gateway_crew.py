"""Processes that join a busy gateway and leave a quiet one: all go by the same table, and no request is lost."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from typing import cast

import pytest

from emulator.runtime import crew_size, gateway_post
from emulator.runtime.crew_size import BUSY_SHARE, CALM_S, CALM_SHARE, CrewSize
from emulator.runtime.gateway_process import GatewayProcess
from emulator.runtime.process import Launcher
from tests.emulator.runtime.bundles import Bundler
from tests.emulator.runtime.gateways import DEADLINE_S, Ingress, handler
from tests.emulator.runtime.test_gateway_under_load import CLIENTS, Crowd
from tests.emulator.runtime.towns import Minutes

COMPUTE = "if (request.url.endsWith('/busy')) { let n = 0; while (n < 2e7) n++; }"
FIRST, SECOND = cast("list[GatewayProcess]", [object(), object()])


@pytest.mark.req("MW-14")
def test_a_second_process_is_wanted_once_the_first_is_busy_and_no_third() -> None:
    size = CrewSize(2)
    size.note(FIRST, BUSY_SHARE - 0.01, [FIRST], 1.0)
    assert size.wanted == 1
    size.note(FIRST, BUSY_SHARE, [FIRST], 1.5)
    assert size.wanted == 2
    for at_s in (2.0, 2.5):
        size.note(FIRST, 1.0, [FIRST, SECOND], at_s)
        size.note(SECOND, 1.0, [FIRST, SECOND], at_s)
    assert size.wanted == 2


@pytest.mark.req("MW-14")
def test_one_idle_process_is_enough_help_and_while_one_starts_nobody_else_is_called() -> None:
    size = CrewSize(4)
    size.note(FIRST, 1.0, [FIRST], 1.0)
    size.note(FIRST, 1.0, [FIRST], 1.5)
    assert size.wanted == 2
    size.note(FIRST, 1.0, [FIRST, SECOND], 2.0)
    assert size.wanted == 2
    size.note(SECOND, 1.0, [FIRST, SECOND], 2.0)
    assert size.wanted == 3


@pytest.mark.req("MW-14")
def test_one_is_wanted_again_after_a_calm_time() -> None:
    size = CrewSize(2)
    size.note(FIRST, 1.0, [FIRST], 100.0)
    size.note(FIRST, CALM_SHARE / 2, [FIRST, SECOND], 100.0 + CALM_S - 0.1)
    assert size.wanted == 2
    size.note(SECOND, CALM_SHARE / 2, [FIRST, SECOND], 101.0)
    size.note(FIRST, 0.0, [FIRST, SECOND], 101.0 + CALM_S - 0.1)
    assert size.wanted == 2
    size.forget(SECOND)
    size.note(FIRST, 0.0, [FIRST, SECOND], 101.0 + CALM_S)
    assert size.wanted == 1


class Pair:
    """A gateway that two processes serve, as the first was kept busy."""

    def __init__(self, ingress: Ingress, time: Minutes) -> None:
        self.ingress = ingress
        self.gateway = ingress.gateway
        self.time = time

    async def serve(self, uid: str, body: str) -> None:
        version = await self.ingress.version(uid, handler(COMPUTE + body))
        await self.ingress.serve((version, 10000))

    async def grow(self) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while len(self.gateway.pids) < 2:
                await self.ingress.text("/busy")

    async def shrink(self) -> None:
        """Let time pass until there is one process again."""
        async with asyncio.timeout(DEADLINE_S):
            while len(self.gateway.pids) > 1:
                self.time.skip(CALM_S + 1)
                await asyncio.sleep(0.02)

    async def isolates(self) -> set[str]:
        """What new connections read, until each process has been met."""
        seen: set[str] = set()
        async with asyncio.timeout(DEADLINE_S):
            while len(seen) < 2:
                seen |= set(await asyncio.gather(*(Crowd(self.ingress.port)._ask() for _ in range(8))))
        return seen


@pytest.fixture
async def pair(launcher: Launcher, bundler: Bundler, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Pair]:
    """Little counts as busy here: on a loaded machine nobody gets a whole processor."""
    monkeypatch.setattr(crew_size, "BUSY_SHARE", 0.02)
    time = Minutes()
    pair = Pair(Ingress(launcher, bundler, real_time=time, most=2), time)
    yield pair
    await pair.ingress.close()


ME = "const me = crypto.randomUUID(); return new Response(globalThis.me ??= me);"


@pytest.mark.req("MW-14", "WD-04")
async def test_a_busy_gateway_is_joined_by_another_process_that_goes_by_the_same_table(pair: Pair) -> None:
    await pair.serve("v1", ME)
    await pair.grow()
    assert len(await pair.isolates()) == 2
    await pair.serve("v2", "return new Response('two');")
    answers = await asyncio.gather(*(Crowd(pair.ingress.port)._ask() for _ in range(40)))
    assert set(answers) == {"two"}


@pytest.mark.req("MW-14")
async def test_after_a_quiet_time_it_leaves_without_losing_a_request(pair: Pair) -> None:
    await pair.serve("v1", "return new Response('fine');")
    await pair.grow()
    first = pair.gateway.pid
    crowd = Crowd(pair.ingress.port)
    async with crowd.asking():
        await crowd.more()
        await pair.shrink()
        await crowd.more()
    assert crowd.failures == []
    assert first in pair.gateway.pids


@pytest.mark.req("WD-07", "WV-09")
async def test_a_version_is_retired_from_both(pair: Pair) -> None:
    stream = "if (request.url.endsWith('/hang')) await scheduler.wait(1e6); return new Response('fine');"
    await pair.serve("v1", stream)
    await pair.grow()
    hanging = [asyncio.create_task(_cut(pair.ingress.port)) for _ in range(16)]
    async with asyncio.timeout(DEADLINE_S):
        while not all([await process.is_executing("v1") for process in pair.gateway._post.live]):
            hanging.append(asyncio.create_task(_cut(pair.ingress.port)))
            await asyncio.sleep(0.01)
    await pair.ingress.serve((await pair.ingress.version("v2", handler("return new Response('two');")), 10000))
    assert (await pair.gateway.retire("v1")).kind == "ack"
    await asyncio.gather(*hanging)
    assert not await pair.gateway.is_executing("v1")


async def _cut(port: int) -> None:
    """Ask for what never comes; return once the request has ended."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /hang HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    with contextlib.suppress(OSError):
        await asyncio.wait_for(reader.read(), DEADLINE_S)
    writer.close()


@pytest.mark.req("MW-14", "WD-04")
async def test_either_can_be_killed_and_the_other_answers_at_once(pair: Pair) -> None:
    await pair.serve("v1", "return new Response('one');")
    await pair.grow()
    first = pair.gateway.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    async with asyncio.timeout(DEADLINE_S):
        while pair.gateway.pid in (first, None):
            await asyncio.sleep(0.005)
    await pair.serve("v2", "return new Response('two');")
    assert await Crowd(pair.ingress.port)._ask() == "two"


@pytest.mark.req("MW-14")
async def test_a_process_with_much_memory_is_replaced(
    launcher: Launcher, bundler: Bundler, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingress = Ingress(launcher, bundler)
    await ingress.serve_handler("return new Response('fine');")
    first = ingress.gateway.pid
    crowd = Crowd(ingress.port)
    async with crowd.asking():
        await crowd.more()
        monkeypatch.setattr(gateway_post, "TIRED_BYTES", 1)
        async with asyncio.timeout(DEADLINE_S):
            while ingress.gateway.pid == first:
                await asyncio.sleep(0.002)
        monkeypatch.undo()
        async with asyncio.timeout(DEADLINE_S):
            while len(ingress.gateway.pids) > 1:
                await asyncio.sleep(0.01)
        failed_by_then = len(crowd.failures)
        await crowd.more()
    assert len(crowd.failures) == failed_by_then <= CLIENTS  # connected, without a request yet when workerd closed
    assert first not in ingress.gateway.pids
    await ingress.close()
