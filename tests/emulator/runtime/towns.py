"""A gateway with Workers by name, whose minutes a test can skip, and what its tests wait for."""

import asyncio
import itertools
from collections import Counter

import httpx

from emulator.runtime.app_log import AppLine, AppLog
from emulator.runtime.routes import GatewayRoute, RoutedVersion, RouteTable
from host.model.time import RealTime
from host.ports import BindingRecord, VersionRecord
from tests.emulator.runtime.gateways import DEADLINE_S, Ingress, handler

LIMIT_S = 0.2
"""Processor time: a kill in a test need not take longer."""
SPIN = "if (request.url.endsWith('/spin')) for (;;);"


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
        self._activations = itertools.count(1)

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
        versions = tuple(RoutedVersion(*each) for each in weights)
        self.routes[name] = GatewayRoute(name, name, versions, activation=f"d/{next(self._activations)}")

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
