"""The workerd side of a host: launcher, runner pool and gateway, started together. Knows no Form and no instance."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass

from emulator.catalog import Catalog
from emulator.compose.calls import CallDesk
from emulator.compose.errors import FoundationUnusable
from emulator.compose.listeners import Listeners
from emulator.compose.options import HostOptions
from emulator.compose.routing import Routing
from emulator.compose.state import StateDirectory
from emulator.runtime.gateway import Gateway
from emulator.runtime.kernels import KernelSettings, OutboundPolicy
from emulator.runtime.locate import Runtime, locate_runtime
from emulator.runtime.output_log import OutputLog
from emulator.runtime.platform import Reaper
from emulator.runtime.pool import PoolSettings, RunnerPool, default_runners
from emulator.runtime.process import Launcher, WorkerdFailed
from emulator.runtime.runner import StopRules
from emulator.runtime.unusable import RuntimeUnusable
from host.model.time import Clock, RealTime


def find_runtime() -> Runtime:
    """The installed workerd and parser. Raises `FoundationUnusable` with the reason and what to do."""
    try:
        return locate_runtime()
    except RuntimeUnusable as error:
        raise FoundationUnusable(str(error)) from error


@dataclass(frozen=True, slots=True)
class WorkerdSide:
    """Processes that run app code and what commands them."""

    launcher: Launcher
    calls: CallDesk
    pool: RunnerPool
    gateway: Gateway
    routing: Routing


async def start_workerd_side(
    options: HostOptions,
    runtime: Runtime,
    state: StateDirectory,
    listeners: Listeners,
    catalog: Catalog,
    clock: Clock,
    real_time: RealTime,
    stack: AsyncExitStack,
) -> WorkerdSide:
    """Spawn the gateway and the first runner; `stack` ends them. Raises `FoundationUnusable`."""
    state.code.mkdir(mode=0o700, exist_ok=True)
    log = OutputLog(state.path / "workers.log")
    stack.callback(log.close)
    reaper = Reaper()
    stack.callback(reaper.close)
    launcher = Launcher(runtime.workerd, state.path, reaper, log)
    stack.callback(launcher.close)
    kernel = KernelSettings(state.code, _outbound_policy(options, listeners))
    calls = CallDesk()
    pool = RunnerPool(launcher, kernel, _pool_settings(options), calls, clock, real_time)
    stack.push_async_callback(pool.close)
    gateway = Gateway(launcher, kernel, listeners.ingress, calls, clock, real_time)
    stack.push_async_callback(gateway.close)
    routing = Routing(catalog, gateway, options.default_worker)
    try:
        await asyncio.gather(routing.open(), pool.open())
    except WorkerdFailed as error:
        raise FoundationUnusable(f"{error}; its words are in {state.path / 'workers.log'}") from error
    return WorkerdSide(launcher, calls, pool, gateway, routing)


def _outbound_policy(options: HostOptions, listeners: Listeners) -> OutboundPolicy:
    """The host's own listeners are reachable in no mode."""
    own = (listeners.api, listeners.ingress, listeners.management)
    ports = tuple(int(listener.getsockname()[1]) for listener in own)
    return OutboundPolicy(options.outbound.mode, options.outbound.allow, ports)


def _pool_settings(options: HostOptions) -> PoolSettings:
    asked = options.runners
    return PoolSettings(
        runners=asked.runners or default_runners(),
        max_contexts=asked.max_contexts,
        stop=StopRules(strict=asked.is_strict),
        context_cpu_limit_s=asked.context_cpu_limit_s,
        context_memory_mib=asked.context_memory_mib,
    )
