"""One host: every part made, wired and started in order, stopped in reverse. The only place that knows them all."""

import random
import secrets
from contextlib import AsyncExitStack
from dataclasses import dataclass

from emulator.artifacts import ArtifactCustody
from emulator.bindings.workflow import WorkflowCalls
from emulator.catalog import Catalog
from emulator.compose.backends import CatalogDeployments, CatalogVersions, CatalogWorkers
from emulator.compose.listeners import Listeners
from emulator.compose.options import HostOptions
from emulator.compose.runtime import WorkerdSide, start_workerd_side
from emulator.compose.state import StateDirectory
from emulator.compose.stored import load_clock, open_control_database, open_emulator_database
from emulator.d1 import Database as D1Database
from emulator.runtime.compiler import CodeCompiler
from emulator.runtime.identity import process_started
from emulator.runtime.locate import Runtime
from emulator.workflow import Engine as WorkflowEngine
from host.engine.engine import Engine as HostEngine
from host.engine.limits import Limits
from host.model.faults import FaultPoints
from host.model.ids import RandomIds
from host.model.time import ControlledClock, RealTime
from host.ports import Backend


@dataclass(frozen=True, slots=True)
class Host:
    """The parts of a host that edges speak to."""

    clock: ControlledClock
    faults: FaultPoints
    artifacts: ArtifactCustody
    workerd: WorkerdSide
    workflows: WorkflowEngine
    engine: HostEngine


class HostBuilder:
    """Builds one host on a claimed directory and bound listeners; `stack` undoes it."""

    def __init__(
        self, options: HostOptions, runtime: Runtime, state: StateDirectory, listeners: Listeners, stack: AsyncExitStack
    ) -> None:
        self._options = options
        self._runtime = runtime
        self._state = state
        self._listeners = listeners
        self._stack = stack
        self._clock = load_clock(state.clock_file)
        self._real_time = RealTime()
        self._faults = FaultPoints()
        self._ids = RandomIds()

    async def build(self) -> Host:
        """Start everything but the servers. Raises `StartRefused`."""
        emulator_database = await open_emulator_database(self._state)
        self._stack.push_async_callback(emulator_database.close)
        control_database = await open_control_database(self._state)
        self._stack.push_async_callback(control_database.close)
        rows = D1Database(emulator_database)
        catalog = Catalog(rows)
        artifacts = await ArtifactCustody.open(emulator_database, self._state.artifacts)
        workerd = await self._start_workerd(catalog)
        workflows = await self._open_workflows(rows, workerd)
        backend = self._backend(artifacts, catalog, workerd, workflows)
        engine = await HostEngine.open(
            control_database, self._clock, self._real_time, self._ids, backend, self._faults, Limits()
        )
        self._stack.push_async_callback(engine.close)
        workerd.calls.open({"workflow": WorkflowCalls(workflows.instances)})
        workflows.start()
        await engine.start()
        return Host(self._clock, self._faults, artifacts, workerd, workflows, engine)

    async def _start_workerd(self, catalog: Catalog) -> WorkerdSide:
        return await start_workerd_side(
            self._options,
            self._runtime,
            self._state,
            self._listeners,
            catalog,
            self._clock,
            self._real_time,
            self._stack,
        )

    async def _open_workflows(self, rows: D1Database, workerd: WorkerdSide) -> WorkflowEngine:
        """Recovery happens here: what an earlier host left is fenced before anything starts."""
        workflows = await WorkflowEngine.open(
            rows,
            self._clock,
            self._real_time,
            lambda: secrets.token_hex(16),
            self._faults,
            workerd.pool,
            random.SystemRandom().random,
            lambda pid, started: process_started(pid) == started,
            self._options.runners.max_contexts,
        )
        self._stack.push_async_callback(workflows.close)
        return workflows

    def _backend(
        self, artifacts: ArtifactCustody, catalog: Catalog, workerd: WorkerdSide, workflows: WorkflowEngine
    ) -> Backend:
        return Backend(
            artifacts=artifacts,
            code=CodeCompiler(artifacts, self._state.code, workerd.launcher, self._runtime.parser),
            workers=CatalogWorkers(catalog, workerd.routing),
            versions=CatalogVersions(catalog, workerd.routing, workflows),
            deployments=CatalogDeployments(catalog, workerd.routing, workflows),
            workflows=workflows.gates,
        )
