"""How long clients of one Worker wait while another one's code spins or eats memory. Printed; goal: below a second (MW-14)."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx
import pytest

from emulator.runtime.crew_size import default_processes
from emulator.runtime.process import Launcher
from tests.emulator.runtime.bundles import Bundler
from tests.emulator.runtime.conftest import bundler, launcher, said
from tests.emulator.runtime.gateways import Ingress
from tests.emulator.runtime.towns import Minutes, Town

__all__ = ["bundler", "launcher", "said"]

ACTS = {
    "for (;;)": "for (;;);",
    "microtasks": "const next = () => Promise.resolve().then(next); await next();",
    "2 GB buffer": "return new Response(String(new Uint8Array(2 ** 31 - 1).length));",
    "2 GB of heap": "const all = []; for (let n = 0; n < 14; n++) all.push(new Array(2e7).fill(1.5)); return new Response('!');",
}
INCIDENTS = 4
EVERY_S = 0.01
BEFORE_S = 0.3
AFTER_S = 1.0
GOAL_S = 1.0


@dataclass
class Waits:
    """The longest time that a request took, repeated attempts of one that was cut included."""

    longest_s: float = 0.0
    cuts: int = 0

    async def note(self, ask: Callable[[], Awaitable[None]]) -> None:
        started_s = time.monotonic()
        while True:
            try:
                await ask()
                break
            except (OSError, EOFError):
                self.cuts += 1
        self.longest_s = max(self.longest_s, time.monotonic() - started_s)

    def __str__(self) -> str:
        return f"{self.longest_s:5.2f} s, {self.cuts:2} cut"


class Caller:
    """Asks the Worker `good`, on a connection that it keeps or on new ones."""

    def __init__(self, town: Town) -> None:
        self._port = town.ingress.port
        self._host = town.routes["good"].hostname
        self._kept: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask_anew(self) -> None:
        streams = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            await self._exchange(*streams)
        finally:
            streams[1].close()

    async def ask_again(self) -> None:
        if self._kept is None:
            self._kept = await asyncio.open_connection("127.0.0.1", self._port)
        kept = self._kept
        try:
            await self._exchange(*kept)
        except (OSError, EOFError):
            self.close()
            self._kept = None
            raise

    def close(self) -> None:
        if self._kept is not None:
            self._kept[1].close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"GET / HTTP/1.1\r\nHost: {self._host}\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 "), head
        await reader.readexactly(len(b"good"))


@asynccontextmanager
async def steady(town: Town) -> AsyncIterator[tuple[Waits, Waits]]:
    """Clients for as long as the context lasts, and until all of them are answered: with new connections, each begun on
    time whatever became of the others, and with a kept one."""
    caller = Caller(town)
    anew, kept = Waits(), Waits()
    is_over = asyncio.Event()

    async def begin_many() -> None:
        async with asyncio.TaskGroup() as group:
            while not is_over.is_set():
                group.create_task(anew.note(caller.ask_anew))
                await asyncio.sleep(EVERY_S)

    async def ask_in_turn() -> None:
        while not is_over.is_set():
            await kept.note(caller.ask_again)
            await asyncio.sleep(EVERY_S)

    async with asyncio.TaskGroup() as group:
        group.create_task(begin_many())
        group.create_task(ask_in_turn())
        yield anew, kept
        is_over.set()
    caller.close()


async def provoke(town: Town) -> str:
    """How the request at fault ended."""
    started_s = time.monotonic()
    async with town.client("bad") as client:
        try:
            end = f"answered {(await client.get('/act')).status_code}"
        except httpx.TransportError:
            end = "connection closed"
    return f"{end} after {time.monotonic() - started_s:.2f} s"


async def incident(town: Town) -> tuple[Waits, Waits, str]:
    async with steady(town) as (anew, kept):
        await asyncio.sleep(BEFORE_S)
        end = await provoke(town)
        await asyncio.sleep(AFTER_S)
    return anew, kept, end


@pytest.mark.bench
@pytest.mark.req("MW-14")
@pytest.mark.parametrize("act", ACTS)
async def test_others_wait_while_code_spins_or_eats_memory(launcher: Launcher, bundler: Bundler, act: str) -> None:
    ingress = Ingress(launcher, bundler, most=default_processes())
    town = Town(ingress, Minutes())
    await town.deploy("bad", f"if (request.url.endsWith('/act')) {{ {ACTS[act]} }} return new Response('fine');")
    await town.deploy("good", "return new Response('good');")
    await town.ask("bad"), await town.ask("good")
    print(f"\n{act}, load {os.getloadavg()[0]:.1f}, goal {GOAL_S:g} s")
    for number in range(1, INCIDENTS + 1):
        anew, kept, end = await incident(town)
        print(
            f"  {number}: new connections {anew}; kept connection {kept}; the request: {end}; apart: {len(town.gateway.apart)}"
        )
        assert max(anew.longest_s, kept.longest_s) < 20 * GOAL_S
    await ingress.close()
