"""One Version's code spins or eats memory: the others are answered, the logs say whose it was, and it is set apart."""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from emulator.runtime.app_log import AppLine, AppLog
from emulator.runtime.process import Launcher
from emulator.runtime.routes import GatewayRoute, RoutedVersion, RouteTable
from host.model.time import RealTime
from host.ports import BindingRecord, VersionRecord
from tests.emulator.runtime.bundles import Bundler
from tests.emulator.runtime.gateways import DEADLINE_S, Ingress, handler

LIMIT_S = 0.2
"""Processor time: a kill in a test need not take longer."""
NEVER_S = 1e6
SPINS = {
    "a loop": "for (;;);",
    "microtasks without end": "const next = () => Promise.resolve().then(next); await next();",
}
SPIN = "if (request.url.endsWith('/spin')) for (;;);"
HOG = "if (request.url.endsWith('/hog')) { const all = []; for (;;) all.push(new Array(2e7).fill(1.5)); }"


class Minutes(RealTime):
    """Real time, except that waiting for long is skipped at a word of the test."""

    def __init__(self) -> None:
        self._ahead_s = 0.0
        self._skipped = asyncio.Event()

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self._ahead_s

    async def sleep_s(self, seconds: float) -> None:
        until_s = self.monotonic_s() + seconds
        if seconds < 5:
            return await super().sleep_s(seconds)
        while self.monotonic_s() < until_s:
            await self._skipped.wait()
        return None

    def skip(self, seconds: float) -> None:
        self._ahead_s += seconds
        self._skipped.set()
        self._skipped = asyncio.Event()


class Town:
    """A gateway with Workers by name, each asked over a connection of its own."""

    def __init__(self, ingress: Ingress, time: Minutes) -> None:
        self.ingress = ingress
        self.gateway = ingress.gateway
        self.time = time
        self.routes: dict[str, GatewayRoute] = {}
        self.counts: Counter[str] = Counter()

    async def deploy(self, name: str, *bodies: str, bindings: tuple[BindingRecord, ...] = ()) -> None:
        """A Worker with a new Version for each body, of equal weight; they are called `<name>1`, `<name>2` and so on."""
        versions = []
        for body in bodies:
            self.counts[name] += 1
            uid = f"{name}{self.counts[name]}"
            versions.append(await self.ingress.version(uid, handler(body + f"// {uid}\n"), bindings=bindings))
        self.weigh(name, *((version, 1) for version in versions))
        await self.publish()

    def weigh(self, name: str, *weights: tuple[VersionRecord, int]) -> None:
        self.routes[name] = GatewayRoute(name, name, tuple(RoutedVersion(*each) for each in weights))

    async def publish(self) -> None:
        await self.ingress.publish(RouteTable(tuple(self.routes.values())))

    def client(self, name: str) -> httpx.AsyncClient:
        headers = {"host": self.routes[name].hostname}
        return httpx.AsyncClient(base_url=str(self.ingress.client.base_url), headers=headers, timeout=DEADLINE_S)

    async def ask(self, name: str, path: str = "/") -> str:
        async with self.client(name) as client:
            answer = await client.get(path)
        assert answer.status_code == 200, answer.text
        return answer.text

    async def provoke(self, name: str, path: str = "/spin") -> None:
        """Ask for what ends the process, and see the request cut."""
        async with self.client(name) as client:
            try:
                answer = await client.get(path)
            except httpx.TransportError:
                return
        assert (answer.status_code, answer.text) == (500, "Internal Server Error\n")

    async def set_apart(self, *names: str) -> None:
        """Return once these Versions, and no others, have processes of their own."""
        async with asyncio.timeout(DEADLINE_S):
            while self.gateway.apart.keys() != set(names) or len(self.gateway.pids) != 1 + len(names):
                await asyncio.sleep(0.005)


async def settled(town: Town) -> None:
    """Return once the gateway knows of no request under way."""
    async with asyncio.timeout(DEADLINE_S):
        while any(process.active for process in town.gateway._live):
            for process in town.gateway._live:
                process.settle()
            await asyncio.sleep(0.005)


async def error_lines(log: AppLog, count: int) -> list[AppLine]:
    """The host's own lines about Workers, once there are so many."""
    found: list[AppLine] = []
    async with asyncio.timeout(DEADLINE_S):
        async for line in log.follow():
            assert isinstance(line, AppLine)
            if line.message.startswith("takohost:"):
                found.append(line)
            if len(found) == count:
                return found
    return found


@pytest.fixture
async def town(launcher: Launcher, bundler: Bundler, said: AppLog) -> AsyncIterator[Town]:
    time = Minutes()
    ingress = Ingress(launcher, bundler, LIMIT_S, said.tags, real_time=time)
    yield Town(ingress, time)
    await ingress.close()


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
    assert await town.ask("good") == "good"
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


WARDED = (
    SPIN
    + "if (request.url.endsWith('/stream')) return new Response(new ReadableStream({ async pull(c) { await scheduler.wait(1);"
    "c.enqueue(new TextEncoder().encode('.')); } }));"
    "if (request.url.endsWith('/back')) return env.BACK.fetch('http://x/a', { method: 'PUT', body: request.body });"
    "if (request.url.endsWith('/date')) return new Response(String(Date.now()));"
    "return Response.json({ me: env.ME, url: request.url, method: request.method, body: await request.text(),"
    "own: [...request.headers.keys()].filter((k) => k.startsWith('takohost') || k === 'content-length') });"
)


@pytest.fixture
async def warded(town: Town) -> Town:
    """A Worker whose Version `app1` is apart, with a service binding to `back`."""
    await town.deploy("back", "return new Response(request.method + ' ' + await request.text() + ' ' + request.url);")
    await town.deploy("app", WARDED, bindings=(BindingRecord("BACK", "service", "back"),))
    await town.provoke("app")
    await town.set_apart("app1")
    return town


@pytest.mark.req("MW-14", "MW-20")
async def test_a_request_reaches_a_ward_as_it_was_sent(warded: Town) -> None:
    async with warded.client("app") as client:
        for method, body in (("GET", ""), ("POST", "text"), ("DELETE", "")):
            answer = await client.request(method, "/a%2Fb?q=1", content=body, headers={"takohost-method": "get"})
            seen = json.loads(answer.text)
            assert seen["own"] == (["content-length"] if body else []) or method == "DELETE"
            assert (seen["method"], seen["body"]) == (method, body)
            assert seen["url"] == f"http://{warded.routes['app'].hostname}/a%2Fb?q=1"
        assert (await client.put("/back", content=b"hello")).text == "PUT hello http://x/a"
        assert (await client.head("/")).status_code == 200


@pytest.mark.req("MW-14")
async def test_a_request_that_ends_its_ward_is_not_made_again(warded: Town, said: AppLog) -> None:
    """The engine would repeat a GET on a connection that had served another request before."""
    await warded.deploy("app", "console.log('started ' + request.url.split('/').pop());" + WARDED)
    await warded.provoke("app")
    await warded.set_apart("app2")
    for path in ("/a", "/b"):
        await warded.ask("app", path)
    await warded.provoke("app")
    await warded.set_apart("app2")
    assert [line.message for line in said.recent()].count("started spin") == 2


@pytest.mark.req("WV-09", "WD-07")
async def test_a_body_from_a_ward_counts_and_is_ended_by_its_retirement(warded: Town) -> None:
    async with warded.client("app") as client, client.stream("GET", "/stream") as answer:
        pieces = answer.aiter_raw()
        await anext(pieces)
        assert await warded.gateway.is_executing("app1")
        warded.weigh("app")
        await warded.publish()
        evidence = await warded.gateway.retire("app1")
        assert evidence.kind == "ack"
        with pytest.raises(httpx.RemoteProtocolError):
            async with asyncio.timeout(DEADLINE_S):
                async for _ in pieces:
                    pass
    assert not await warded.gateway.is_executing("app1")
    await warded.set_apart()


@pytest.mark.req("WD-03", "WD-04")
async def test_a_body_from_a_ward_flows_on_when_its_version_is_deployed_anew(warded: Town) -> None:
    async with warded.client("app") as client, client.stream("GET", "/stream") as answer:
        pieces = answer.aiter_raw()
        await anext(pieces)
        await warded.deploy("app", "return new Response('new');", "return new Response('newer');")
        assert warded.gateway.apart == {}
        assert await warded.ask("app") in ("new", "newer")
        for _ in range(20):
            await anext(pieces)
        assert len(warded.gateway.pids) == 2
    await warded.set_apart()


@pytest.mark.req("MW-14")
async def test_a_ward_goes_by_the_clock(warded: Town) -> None:
    warded.ingress.clock.freeze()
    await warded.gateway.follow_clock()
    frozen_ms = warded.ingress.clock.now_ms()
    assert await warded.ask("app", "/date") == str(frozen_ms)
    assert warded.gateway.apart.keys() == {"app1"}
