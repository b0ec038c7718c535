"""The engine with real workerd behind it, and the scenarios of the fault matrix as JavaScript: a process of workerd is
killed with SIGKILL at a fault point, the host lives on."""

import asyncio
import contextlib
import hashlib
import itertools
import json
import os
import signal
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import httpx

from emulator.bindings.workflow import WorkflowCalls
from emulator.catalog import Catalog
from emulator.contexts import BindingCall
from emulator.d1 import CONFINEMENT, Database, FileDriver, Statement
from emulator.runtime.compiled_code import CodeWriter, CompiledModule, ModuleKind
from emulator.runtime.gateway import Gateway
from emulator.runtime.identity import process_started
from emulator.runtime.kernels import KernelSettings
from emulator.runtime.locate import locate_runtime
from emulator.runtime.output_log import OutputLog
from emulator.runtime.platform import Reaper
from emulator.runtime.pool import PoolSettings, RunnerPool
from emulator.runtime.process import Launcher
from emulator.runtime.routes import GatewayRoute, RoutedVersion, RouteTable
from emulator.runtime.runner import StopRules
from emulator.workflow import APPLICATION_ID, MIGRATIONS, Engine, ErrorName, InstanceRefused
from host import sqlite
from host.model.faults import FaultPoints
from host.model.time import ControlledClock, RealTime
from host.ports import BindingRecord, VersionRecord, Weight
from tests.emulator.workflow.hosts import DEPLOYMENT, KEYS, START_MS, WORKER, WORKFLOW, Host
from tests.emulator.workflow.isolates import Document, FakeRunners
from tests.emulator.workflow.scenarios import SCENARIOS as SCRIPTED
from tests.emulator.workflow.scenarios import Diary

BINDING = (BindingRecord("WF", "workflow", WORKFLOW),)
PATIENCE_S = 20.0
SCENARIOS = MappingProxyType({**SCRIPTED, "overlap": replace(SCRIPTED["overlap"], steps=SCRIPTED["overlap"].steps[:1])})
"""In a real isolate neither of two overlapping steps is begun."""

PROGRAM = """
const DELAYED = { maxAttempts: 3, initialDelaySeconds: 30 }, AT_ONCE = { maxAttempts: 3 };
export class Flow {
  constructor(env) { this.env = env; }
  // the test answers with the number of attempts of this name that have failed so far
  effect(name, fails = 0, result = undefined) {
    return async () => {
      if (Number((await this.env.WF.get(name)).id) < fails) throw new Error(name + " declined");
      return result;
    };
  }
  async pay(step, fails, policy) {
    try { return await step.do("pay", this.effect("pay", fails, { paid: 1 }), policy); }
    catch (error) { await step.do("clean", this.effect("clean")); throw error; }
  }
  async nap(step, seconds) {
    await step.sleep("nap", seconds);
    return await step.do("after", this.effect("after"));
  }
  async wait(step, timeoutSeconds) {
    try { return await step.waitForEvent("go", { type: "go", timeoutSeconds }); } catch { return { late: 1 }; }
  }
  async rest(kind, step) {
    switch (kind) {
      case "do": return this.pay(step, 0);
      case "do, fails": return this.pay(step, 9);
      case "do, retries after a delay": return this.pay(step, 2, DELAYED);
      case "do, retries at once": return this.pay(step, 1, AT_ONCE);
      case "do, all retries fail": return this.pay(step, 9, DELAYED);
      case "sleep": return this.nap(step, 60);
      case "sleep of 0": return this.nap(step, 0);
      case "wait, event later": case "wait, event queued": return this.wait(step, 2592000);
      case "wait, timeout": return this.wait(step, 600);
      case "throw": throw new Error("thrown");
      case "overlap": step.do("outer", () => new Promise(() => {})); return await step.sleep("inner", 5);
      case "order": {
        await step.do("charge", this.effect("charge", 1), DELAYED);
        const paid = await step.waitForEvent("paid", { type: "go", timeoutSeconds: 2592000 });
        await step.sleep("ship", 60);
        await step.do("mail", this.effect("mail"));
        return paid;
      }
    }
  }
  async run(event, step) {
    if (this.env.KIND === "terminate") return await step.do("endless", () => new Promise(() => {}));
    await step.do("first", this.effect("first"));
    return await this.rest(this.env.KIND, step);
  }
}
export default {
  async fetch(request, { WF }) {
    const [verb, id, ...rest] = await request.json();
    try {
      if (verb === "create") return Response.json(["ok", (await WF.create({ id })).id]);
      const instance = await WF.get(id);
      if (verb === "send") await instance.sendEvent({ type: rest[0], payload: rest[1] ?? undefined });
      else await instance[verb]();
      return Response.json(["ok"]);
    } catch (error) { return Response.json(["error", error.name, error.message]); }
  },
};
"""


class KillingFaults(FaultPoints):
    """Counts how often each point is reached; at one occasion of one point it kills what `pids` gives."""

    def __init__(self, point: str | None, nth: int, pids: Callable[[], list[int]]) -> None:
        super().__init__()
        self.reached: Counter[str] = Counter()
        self.killed: list[int] = []
        self._occasion = (point, nth)
        self._pids = pids

    def reach(self, name: str) -> None:
        self.reached[name] += 1
        if (name, self.reached[name]) == self._occasion:
            for pid in self._pids():
                with contextlib.suppress(ProcessLookupError):  # the pool has ended it, and does not know yet
                    os.kill(pid, signal.SIGKILL)
                    self.killed.append(pid)


class Desk:
    """Answers the calls of the gateway by the engine, and those of contexts by counting effects in the diary."""

    def __init__(self) -> None:
        self.host: Host | None = None
        self.folder = Path()
        self.reruns: list[str] = []

    async def answer(self, call: BindingCall) -> str:
        host, reruns = self.host, self.reruns  # of the scenario that asks, however late it is answered
        assert host is not None
        if call.context_id is None:
            return await WorkflowCalls(host.engine.instances).answer(call)
        name = json.loads(call.body)[1]
        await Diary(self.folder).effect(name)()
        [failed, settled] = await host.database.query(
            [
                Statement("SELECT COUNT(*) FROM workflow_attempts WHERE name = ?", (name,)),
                Statement("SELECT 1 FROM workflow_steps WHERE name = ? AND state <> 'pending'", (name,)),
            ]
        )
        if settled.rows:
            reruns.append(name)
        return json.dumps(["ok", str(failed.rows[0][0])])


class WorkerdHost(Host):
    """A host whose contexts run on workerd; with a client its callers come through the gateway, and come again when
    their connection breaks."""

    client: httpx.AsyncClient | None = None

    async def executing(self, contexts: int = 1, steps: int = 0) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while len((await self.history()).steps) < steps:
                await asyncio.sleep(0.002)

    async def create(self, identifier: str | None = "i", params: Document = None) -> str:
        if self.client is None:
            return await super().create(identifier, params)
        await self._call("create", identifier)
        return str(identifier)

    async def send(self, event_type: str, payload: Document = None, identifier: str = "i") -> None:
        if self.client is None:
            return await super().send(event_type, payload, identifier)
        while not await self._ask("send", identifier, event_type, payload):
            history = await self.history(identifier)
            if history.events or any(step.kind == "wait" and step.state == "succeeded" for step in history.steps):
                return None  # it had been accepted: sent again it would be a second event
        return None

    async def terminate(self, identifier: str = "i") -> None:
        if self.client is None:
            return await super().terminate(identifier)
        return await self._call("terminate", identifier)

    async def _call(self, *call: object) -> None:
        while not await self._ask(*call):
            pass

    async def _ask(self, *call: object) -> bool:
        """False when no answer came. Raises `InstanceRefused`."""
        assert self.client is not None
        try:
            outcome, *told = (await self.client.post("/", json=list(call))).json()
        except httpx.TransportError:
            return False
        if outcome == "error":
            raise InstanceRefused(ErrorName(told[0]), told[1])
        return True


class Rig:
    """One pool and one gateway for many engines, one after the other."""

    def __init__(self, pool: RunnerPool, gateway: Gateway, client: httpx.AsyncClient, desk: Desk, code: str) -> None:
        self._pool = pool
        self._gateway = gateway
        self._client = client
        self._desk = desk
        self._code = code

    @classmethod
    @asynccontextmanager
    async def open(cls, folder: Path) -> AsyncIterator["Rig"]:
        async with AsyncExitStack() as stack:
            reaper, log, code_dir = Reaper(), OutputLog(folder / "workerd.log"), folder / "code"
            launcher = Launcher(locate_runtime().workerd, folder, reaper, log)
            for close in (log.close, reaper.close, launcher.close):
                stack.callback(close)
            code = hashlib.sha256(PROGRAM.encode()).hexdigest()
            writer = CodeWriter(code_dir / code, "main.js")
            writer.add(CompiledModule("main.js", ModuleKind.JS, PROGRAM.encode()))
            writer.finish()
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            desk, clock, kernel = Desk(), ControlledClock(), KernelSettings(code_dir)
            rules = StopRules(ack_timeout_s=PATIENCE_S)
            pool = RunnerPool(launcher, kernel, PoolSettings(2, share=1, stop=rules), desk, clock, RealTime())
            stack.push_async_callback(pool.close)
            await pool.open()
            gateway = Gateway(launcher, kernel, listener, desk, clock, RealTime())
            stack.push_async_callback(gateway.close)
            front = VersionRecord("front", "front", code, {}, BINDING, ("fetch",))
            await gateway.open(RouteTable((GatewayRoute("front", "front", (RoutedVersion(front, 10_000),)),)))
            base = f"http://127.0.0.1:{listener.getsockname()[1]}"
            client = await stack.enter_async_context(httpx.AsyncClient(base_url=base, timeout=PATIENCE_S))
            yield cls(pool, gateway, client, desk, code)

    def runners(self) -> list[int]:
        """The processes that hold contexts, or all when none does."""
        census = self._pool.census()
        return [pid for pid, count in census if count] or [pid for pid, _ in census]

    def gateways(self) -> list[int]:
        """Every process that may have taken a request."""
        return list(self._gateway.pids)

    async def settle(self, killed: list[int]) -> None:
        """Return once the killed processes have successors: whoever comes next finds a runner and a gateway to kill."""
        while not (_are_new(self.runners(), killed) and _are_new(self.gateways(), killed) and self._gateway.pid):
            await asyncio.sleep(0.002)

    @asynccontextmanager
    async def boot(
        self, folder: Path, scenario: str, faults: FaultPoints, *, by_http: bool
    ) -> AsyncIterator[tuple[Host, list[str]]]:
        """A host for one scenario, and the names of settled steps whose effect ran again."""
        file = await sqlite.Database.open(
            folder / "e.sqlite", application_id=APPLICATION_ID, migrations=MIGRATIONS, confinement=CONFINEMENT
        )
        database, clock, numbers = Database(FileDriver(file)), ControlledClock.frozen(START_MS), itertools.count(1)
        engine = await Engine.open(
            database,
            clock,
            RealTime(),
            lambda: f"t{next(numbers)}",
            faults,
            self._pool,
            lambda: 0.0,
            lambda pid, started: process_started(pid) == started,
            KEYS,
            lambda notice: None,
        )
        runners = cast(FakeRunners, cast(Any, self._pool))
        host = WorkerdHost(file, database, Catalog(database, KEYS), clock, runners, engine)
        host.client = self._client if by_http else None
        self._desk.host, self._desk.folder, self._desk.reruns = host, folder, []
        await engine.gates.open(WORKFLOW, WORKER, "Flow")
        version = VersionRecord(f"v-{scenario}", WORKER, self._code, {"KIND": scenario}, BINDING, (), ("Flow",))
        await host.catalog.put_version(version)
        await host.catalog.activate(DEPLOYMENT, WORKER, (Weight(version.version_uid, 10_000),), clock.now_ms())
        engine.start()
        try:
            yield host, self._desk.reruns
        finally:
            await host.close()


def _are_new(pids: list[int], killed: list[int]) -> bool:
    return bool(pids) and not set(pids) & set(killed)
