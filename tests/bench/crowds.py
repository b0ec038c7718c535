"""A crowd of instances on a real host: their Worker, a slow server for their effects, and the memory it all takes."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Self

from tests.emulator.compose.hosts import TestHost

SOURCE = """
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
export class Crowd {
  constructor(env) { this.env = env; }
  async run({ instanceId, params }, step) {
    const [kind, number] = instanceId.split("-");
    if (kind === "wait") return step.do("wait", async () => ({ got: (await fetch(this.env.URL)).status }));
    if (kind === "empty") return step.do("only", () => ({}));
    if (kind === "child") return { number };
    await step.do("create", async () => { await this.env.WF.create({ id: "child-" + number }); });
    return step.do("poll", async () => {
      for (;;) {
        const { status, output } = await (await this.env.WF.get("child-" + number)).status();
        if (status === "complete") return output;
        await wait(20);
      }
    });
  }
}
export default {
  async fetch(request, env) {
    const { searchParams } = new URL(request.url);
    const kind = searchParams.get("kind"), count = Number(searchParams.get("count"));
    await Promise.all(Array.from({ length: count }, (_, n) => env.WF.create({ id: kind + "-" + n })));
    return new Response("created");
  },
};
"""


class SlowServer:
    """Answers every request with 200 after `delay_s`, on its own thread; use as a context."""

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self.address = ""

    def __enter__(self) -> Self:
        self._thread.start()
        opening = asyncio.start_server(self._answer, "127.0.0.1", 0, backlog=512)
        self._server = asyncio.run_coroutine_threadsafe(opening, self._loop).result()
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(self._delay_s)
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()
        writer.close()


def pss_bytes(pid: int) -> int:
    """The proportional share of memory of one process; 0 once it is gone."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024


class Crowd:
    """The crowd's Worker on a host."""

    def __init__(self, host: TestHost, url: str) -> None:
        self._host = host
        self._workflow = host.deploy("crowd", SOURCE, "Crowd", {"URL": url})
        self.peak_pss = 0
        self.peak_processes = 0
        self._cpu_ms: dict[int, int] = {}

    def run(self, kind: str, count: int, deadline_s: float) -> float:
        """Create that many instances of a kind; seconds until every instance is complete."""
        began_s = time.monotonic()
        assert self._host.ask(f"/?kind={kind}&count={count}", "POST").text == "created"
        self._wait(lambda statuses: set(statuses) == {"complete"}, began_s + deadline_s)
        return time.monotonic() - began_s

    @property
    def cpu_s(self) -> float:
        """Processor time of the host and of every process it was seen with."""
        return sum(self._cpu_ms.values()) / 1000

    def statuses(self) -> Counter[str]:
        return Counter(str(shown["status"]) for shown in self._host.management.instances(self._workflow))

    def contexts(self) -> list[int]:
        """How many contexts each instance took."""
        instances = self._host.management.instances(self._workflow)
        shown = [self._host.management.instance(self._workflow, instance["id"]) for instance in instances]
        return [len(one["contexts"]) for one in shown]

    def _wait(self, claim: Callable[[Counter[str]], bool], until_s: float) -> None:
        while not claim(statuses := self.statuses()):
            self._measure()
            assert time.monotonic() < until_s, statuses
            time.sleep(0.1)

    def _measure(self) -> None:
        processes = self._host.management.processes()
        self._cpu_ms.update({item["pid"]: item["cpuMs"] or 0 for item in processes})
        pids = [item["pid"] for item in processes]
        self.peak_pss = max(self.peak_pss, sum(map(pss_bytes, pids)))
        self.peak_processes = max(self.peak_processes, len(pids))
