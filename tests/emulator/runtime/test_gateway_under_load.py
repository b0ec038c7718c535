"""Shares of many requests, changes of weights and ends of the gateway while clients go on asking."""

import asyncio
import contextlib
import math
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable

import pytest

from tests.emulator.runtime.gateways import DEADLINE_S, Ingress, handler

CLIENTS = 6
WEIGHTS = {"a": 7000, "b": 2500, "c": 500}
LEAST_CHANCE = 1e-6
"""A right host fails once in a million runs."""


async def ask_pipelined(port: int, count: int) -> Counter[str]:
    """The bodies of so many answers over one connection; each is one letter."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    seen: Counter[str] = Counter()
    for at in range(0, count, 50):
        batch = min(50, count - at)
        writer.write(request * batch)
        for _ in range(batch):
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200") and b"Content-Length: 1\r\n" in head, head
            seen[(await reader.readexactly(1)).decode()] += 1
    writer.close()
    return seen


def chance_of(seen: Counter[str], weights: dict[str, int]) -> float:
    """How probable shares at least as odd are under these weights: the chi-square test with two degrees of freedom."""
    total, whole = sum(seen.values()), sum(weights.values())
    expected = {name: total * weight / whole for name, weight in weights.items()}
    assert seen.keys() <= expected.keys()
    return math.exp(-sum((seen[name] - share) ** 2 / share for name, share in expected.items()) / 2)


def test_the_measure_tells_right_shares_from_wrong_ones() -> None:
    assert chance_of(Counter(a=7030, b=2480, c=490), WEIGHTS) > 0.5
    for wrong in (Counter(a=6700, b=2800, c=500), Counter(a=7000, b=2700, c=300), Counter(a=7500, b=2500)):
        assert chance_of(wrong, WEIGHTS) < LEAST_CHANCE


@pytest.mark.req("WD-01", "WD-03")
@pytest.mark.parametrize("count", [1500, pytest.param(10_000, marks=pytest.mark.long)])
async def test_many_requests_are_shared_out_by_weight(ingress: Ingress, count: int) -> None:
    versions = [await ingress.version(uid, handler(f"return new Response('{uid}');")) for uid in WEIGHTS]
    await ingress.serve(*zip(versions, WEIGHTS.values(), strict=True))
    parts = await asyncio.gather(*(ask_pipelined(ingress.port, count // 5) for _ in range(5)))
    seen = sum(parts, Counter())
    assert seen.total() == count
    assert chance_of(seen, WEIGHTS) > LEAST_CHANCE, seen


class Crowd:
    """Clients that ask without a pause, each request over a connection of its own."""

    def __init__(self, port: int) -> None:
        self.answers: list[tuple[int, str]] = []
        self.failures: list[int] = []
        self.under_way: set[int] = set()
        self._port = port
        self._asked = 0
        self._stop = False

    @property
    def asked(self) -> int:
        """How many requests were begun: the number of the last one."""
        return self._asked

    @contextlib.asynccontextmanager
    async def asking(self) -> AsyncIterator["Crowd"]:
        tasks = [asyncio.create_task(self._ask_on()) for _ in range(CLIENTS)]
        try:
            yield self
        finally:
            self._stop = True
            await asyncio.gather(*tasks)

    async def more(self, count: int = 20) -> None:
        """Return once so many further requests were answered."""
        wanted = len(self.answers) + count
        await self.until(lambda: len(self.answers) >= wanted)

    async def until(self, claim: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not claim():
                await asyncio.sleep(0.002)

    async def _ask_on(self) -> None:
        while not self._stop:
            self._asked += 1
            number = self._asked
            self.under_way.add(number)
            try:
                self.answers.append((number, await self._ask()))
            except OSError:
                self.failures.append(number)
            finally:
                self.under_way.discard(number)

    async def _ask(self) -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            answer = await asyncio.wait_for(reader.read(), DEADLINE_S)
        finally:
            writer.close()
        if not answer:
            raise ConnectionResetError("closed without an answer")
        assert answer.startswith(b"HTTP/1.1 200"), answer
        return answer.rpartition(b"\r\n")[2].decode()


@pytest.mark.req("WD-03", "WD-04")
async def test_every_request_that_starts_after_the_answer_goes_by_the_new_weights(ingress: Ingress) -> None:
    """And none fails, and a body that began before flows on from the Version it was given."""
    versions = [await ingress.version(uid, handler(f"return new Response('{uid}');")) for uid in "abcdef"]
    echo = await ingress.version("s", handler("return new Response(request.body);"))
    await ingress.serve((echo, 10000))
    reader, writer = await asyncio.open_connection("127.0.0.1", ingress.port)
    writer.write(b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
    assert await asyncio.wait_for(reader.readuntil(b"first"), DEADLINE_S)
    await ingress.serve((versions[0], 10000))
    since = [0]
    async with Crowd(ingress.port).asking() as crowd:
        for version in versions[1:]:
            await crowd.more()
            await ingress.serve((version, 10000))
            since.append(crowd.asked)
        await crowd.more()
    assert not crowd.failures
    for number, uid in crowd.answers:
        earliest = max(at for at, asked in enumerate(since) if number > asked)
        assert "abcdef".index(uid) >= earliest, (number, uid, since)
    assert {uid for _, uid in crowd.answers} == set("abcdef")
    writer.write(b"5\r\nother\r\n0\r\n\r\n")
    assert b"other" in await asyncio.wait_for(reader.readuntil(b"0\r\n\r\n"), DEADLINE_S)
    writer.close()


@pytest.mark.req("WD-03")
async def test_a_kill_loses_only_what_the_process_had_taken(ingress: Ingress) -> None:
    await ingress.serve_handler("await scheduler.wait(1); return new Response('here');")
    async with Crowd(ingress.port).asking() as crowd:
        at_risk: set[int] = set()
        killed: set[int | None] = {None}
        for _ in range(3):
            await crowd.more()
            pid = ingress.gateway.pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            at_risk |= crowd.under_way
            killed.add(pid)
            await crowd.until(lambda: ingress.gateway.pid not in killed)
        await crowd.more()
    assert set(crowd.failures) <= at_risk
    assert {text for _, text in crowd.answers} == {"here"}
