"""The workerd side of a host: launcher, runner pool and gateway. Knows no Form, no instance and no row.

Its processes are spawned before the rest of the program is even imported, so that both get ready side by side.
"""

import asyncio
from contextlib import AsyncExitStack

from emulator.compose.authority import ServerIdentity
from emulator.compose.calls import CallDesk
from emulator.compose.errors import FoundationUnusable
from emulator.compose.listeners import Listeners
from emulator.compose.options import HostOptions
from emulator.compose.state import StateDirectory
from emulator.runtime.app_log import AppLog
from emulator.runtime.config import KeyPair
from emulator.runtime.crew_size import default_processes
from emulator.runtime.gateway import Gateway
from emulator.runtime.kernels import KernelSettings, OutboundPolicy, SecureListener
from emulator.runtime.locate import Runtime, locate_runtime
from emulator.runtime.output_log import OutputLog
from emulator.runtime.platform import Reaper
from emulator.runtime.pool import PoolSettings, RunnerPool, default_runners
from emulator.runtime.process import Launcher, WorkerdFailed
from emulator.runtime.routes import RouteTable
from emulator.runtime.runner import StopRules
from emulator.runtime.unusable import RuntimeUnusable
from host.model.time import ControlledClock, RealTime

_WORDS = "workers.log"


def find_runtime() -> Runtime:
    """The installed workerd and parser. Raises `FoundationUnusable` with the reason and what to do."""
    try:
        return locate_runtime()
    except RuntimeUnusable as error:
        raise FoundationUnusable(str(error)) from error


class WorkerdSide:
    """Processes that run app code and what commands them; the exit stack given at the start ends them."""

    def __init__(
        self, launcher: Launcher, calls: CallDesk, pool: RunnerPool, gateway: Gateway, words: AppLog, output: str
    ) -> None:
        self.launcher = launcher
        self.calls = calls
        self.pool = pool
        self.gateway = gateway
        self.words = words
        self._output = output
        self._table: asyncio.Future[RouteTable] = asyncio.get_running_loop().create_future()
        self._opening = [asyncio.create_task(gateway.open_ahead(self._table)), asyncio.create_task(pool.open())]

    async def finish_opening(self, table: RouteTable) -> None:
        """Hand over the first routing table and wait for both. Raises `FoundationUnusable`."""
        if not self._table.done():
            self._table.set_result(table)
        try:
            await asyncio.gather(*self._opening)
        except WorkerdFailed as error:
            raise FoundationUnusable(f"{error}; its words are in {self._output}") from error

    async def abandon(self) -> None:
        """Give up an opening that was not finished."""
        for task in self._opening:
            task.cancel()
        await asyncio.gather(*self._opening, return_exceptions=True)


async def spawn_workerd_side(
    options: HostOptions,
    runtime: Runtime,
    state: StateDirectory,
    listeners: Listeners,
    identity: ServerIdentity,
    clock: ControlledClock,
    real_time: RealTime,
    stack: AsyncExitStack,
) -> WorkerdSide:
    """Return as soon as the gateway and the first runner are spawned; `finish_opening` waits for them."""
    for folder in (state.code, state.files):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    said = AppLog(clock.now_ms)
    log = OutputLog(state.path / _WORDS, said)
    stack.callback(log.close)
    reaper = Reaper()
    stack.callback(reaper.close)
    launcher = Launcher(runtime.workerd, state.path, reaper, log)
    stack.callback(launcher.close)
    services, path = launcher.listen()
    stack.callback(services.close)
    kernel = KernelSettings(state.code, _outbound_policy(options, listeners), path, said.tags, state.files)
    calls = CallDesk()
    pool = RunnerPool(launcher, kernel, _pool_settings(options), calls, clock, real_time)
    stack.push_async_callback(pool.close)
    secure = SecureListener(listeners.secure, KeyPair(identity.certificate.read_text(), identity.key.read_text()))
    most = options.gateway_processes or default_processes()
    public = listeners.ingress
    gateway = Gateway(launcher, kernel, public, calls, clock, real_time, services=services, secure=secure, most=most)
    stack.push_async_callback(gateway.close)
    side = WorkerdSide(launcher, calls, pool, gateway, said, str(state.path / _WORDS))
    stack.push_async_callback(side.abandon)
    await asyncio.sleep(0)  # the opening tasks run up to their first wait: the processes exist now
    return side


def _outbound_policy(options: HostOptions, listeners: Listeners) -> OutboundPolicy:
    """The host's own listeners are reachable in no mode."""
    ports = tuple(int(listener.getsockname()[1]) for listener in listeners.all)
    return OutboundPolicy(options.outbound.mode, options.outbound.allow, ports)


def _pool_settings(options: HostOptions) -> PoolSettings:
    asked = options.runners
    return PoolSettings(
        runners=asked.runners or default_runners(),
        max_contexts=asked.max_contexts,
        stop=StopRules(strict=asked.is_strict),
        context_cpu_limit_s=asked.context_cpu_limit_s,
        context_wall_limit_s=asked.context_wall_limit_s,
        context_memory_mib=asked.context_memory_mib,
    )
