"""One host's parts above workerd: stores, artifacts, engines and backends, wired and started in order."""

import random
import secrets
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from emulator.artifacts import ArtifactCustody
from emulator.artifacts.fetching import HttpsSources
from emulator.bindings.queue import Deliveries, RowLedger
from emulator.bindings.workflow import WorkflowCalls
from emulator.catalog import Catalog
from emulator.compose.backends import CatalogDeployments, CatalogVersions, CatalogWorkers
from emulator.compose.code import CodeRepair, CompilerOnDemand
from emulator.compose.endpoints import CatalogEndpoints, SecureIngress
from emulator.compose.host_key import load_keys
from emulator.compose.losses import LossWatch, LostFiles, warn_of_losses
from emulator.compose.options import HostOptions
from emulator.compose.routing import Routing
from emulator.compose.state import StateDirectory
from emulator.compose.stored import open_control_database, open_emulator_database
from emulator.compose.triggers import HandTriggers
from emulator.compose.withdrawals import Withdrawals
from emulator.compose.workerd_side import WorkerdSide
from emulator.contexts import BindingCalls
from emulator.d1 import Database as Rows
from emulator.d1 import FileDriver
from emulator.runtime.context_texts import CODE_KIND, FILES_KIND
from emulator.runtime.identity import process_started
from emulator.runtime.notice_board import NoticeBoard
from emulator.workflow import Engine as WorkflowEngine
from host.engine.engine import Engine as HostEngine
from host.engine.limits import Limits
from host.model.faults import FaultPoints
from host.model.ids import RandomIds
from host.model.private_keys import PrivateKeys
from host.model.time import ControlledClock, RealTime
from host.ports import Backend
from host.sqlite import Database


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a host stands on: its options, its place, its time and its processes."""

    options: HostOptions
    state: StateDirectory
    clock: ControlledClock
    real_time: RealTime
    workerd: WorkerdSide
    secure: SecureIngress
    parser: Path


@dataclass(frozen=True, slots=True)
class Host:
    """The parts of a running host that its edges speak to."""

    clock: ControlledClock
    faults: FaultPoints
    artifacts: ArtifactCustody
    workerd: WorkerdSide
    workflows: WorkflowEngine
    withdrawals: Withdrawals
    engine: HostEngine
    triggers: HandTriggers


async def start_host(around: Surroundings, stack: AsyncExitStack) -> Host:
    """Start everything but the servers; `stack` stops it in reverse. Raises `FoundationUnusable`."""
    faults = FaultPoints()
    emulator_database = await _opened(open_emulator_database(around.state), stack)
    control_database = await _opened(open_control_database(around.state), stack)
    rows = Rows(FileDriver(emulator_database))
    keys = load_keys(around.state.host_key)
    catalog = Catalog(rows, keys)
    await catalog.note_lost_secrets()  # before anything asks for what is ready
    words = around.workerd.words
    routing = Routing(catalog, around.workerd.gateway, around.options.default_worker, words.name_workers)
    sources = HttpsSources(around.options.artifact_origins)
    artifacts = await ArtifactCustody.open(emulator_database, around.state.artifacts, sources)
    workflows = await _open_workflows(around, rows, faults, keys)
    stack.push_async_callback(workflows.close)
    withdrawals = Withdrawals(catalog, workflows, routing, around.clock, around.real_time)
    stack.push_async_callback(withdrawals.stop)
    compiler = CompilerOnDemand(artifacts, around.state.code, around.workerd, around.parser)
    backend = _backend(around, catalog, routing, artifacts, compiler, workflows, withdrawals)
    clock, real_time = around.clock, around.real_time
    engine = await HostEngine.open(control_database, clock, real_time, RandomIds(), backend, faults, Limits(), keys)
    stack.push_async_callback(engine.close)
    deliveries, triggers = await _open_triggers(around, rows, faults)
    stack.push_async_callback(deliveries.close)
    watch = LossWatch(around.real_time)
    stack.push_async_callback(watch.stop)
    artifacts.on_return = watch.wake
    repair = CodeRepair(artifacts, compiler, around.real_time, watch.wake)
    missing = LostFiles(artifacts, watch, catalog, words, around.real_time.monotonic_s)
    around.workerd.calls.open(_answering(workflows, deliveries, repair, missing))
    await around.workerd.finish_opening(await routing.table())
    lost = await engine.start()  # before anything starts on what was lost meanwhile
    await warn_of_losses(lost, around.state.host_key, catalog, artifacts.lost_digests)
    workflows.start()
    withdrawals.start()
    watch.start(engine.look_for_losses, bool(lost.files))
    return Host(around.clock, faults, artifacts, around.workerd, workflows, withdrawals, engine, triggers)


def _backend(
    around: Surroundings,
    catalog: Catalog,
    routing: Routing,
    artifacts: ArtifactCustody,
    compiler: CompilerOnDemand,
    workflows: WorkflowEngine,
    withdrawals: Withdrawals,
) -> Backend:
    return Backend(
        artifacts=artifacts,
        code=compiler,
        workers=CatalogWorkers(catalog, routing),
        versions=CatalogVersions(catalog, routing, workflows),
        deployments=CatalogDeployments(catalog, routing, workflows, withdrawals, around.clock),
        workflows=workflows.gates,
        endpoints=CatalogEndpoints(catalog, routing, around.secure),
    )


async def _opened(opening: Awaitable[Database], stack: AsyncExitStack) -> Database:
    database = await opening
    stack.push_async_callback(database.close)
    return database


def _answering(
    workflows: WorkflowEngine, deliveries: Deliveries, repair: CodeRepair, missing: LostFiles
) -> dict[str, BindingCalls]:
    """Who answers calls of workerd's side, by their kind."""
    calls = WorkflowCalls(workflows.instances)
    return {"workflow": calls, "batch": deliveries, CODE_KIND: repair, FILES_KIND: missing}


async def _open_triggers(around: Surroundings, rows: Rows, faults: FaultPoints) -> tuple[Deliveries, HandTriggers]:
    """Deliveries that an earlier host left open are ended: no process of it runs any more."""
    ledger, clock, gateway = RowLedger(rows), around.clock, around.workerd.gateway
    await ledger.end_lost(clock.now_ms())
    deliveries = Deliveries(gateway, ledger, clock, lambda: secrets.token_hex(16), faults)
    return deliveries, HandTriggers(gateway, deliveries, ledger, clock, around.workerd.words)


async def _open_workflows(around: Surroundings, rows: Rows, faults: FaultPoints, keys: PrivateKeys) -> WorkflowEngine:
    """Recovery happens here: what an earlier host left is fenced before anything starts."""
    return await WorkflowEngine.open(
        rows,
        around.clock,
        around.real_time,
        lambda: secrets.token_hex(16),
        faults,
        around.workerd.pool,
        random.SystemRandom().random,
        lambda pid, started: process_started(pid) == started,
        keys,
        NoticeBoard(around.workerd.words, around.workerd.launcher.output, around.clock).post,
        around.options.runners.max_contexts,
    )
