"""Runs a host from its options until a signal: claims, spawns, builds, serves, says that it is ready, drains."""

import asyncio
import os
import time
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.compose.authority import server_identity
from emulator.compose.clock_file import load_clock
from emulator.compose.errors import FoundationUnusable
from emulator.compose.interpreter import keep_what_is_there, share_turns
from emulator.compose.listeners import Listeners, address_of, bind_all
from emulator.compose.options import HostOptions
from emulator.compose.ready import ReadyReport, check_place, remove_earlier, remove_ready_file, write_ready_file
from emulator.compose.signals import stop_on_signals
from emulator.compose.state import StateDirectory
from emulator.compose.workerd_side import find_runtime, spawn_workerd_side
from emulator.runtime.locate import Runtime
from emulator.runtime.platform import give_memory_back
from host.model.time import RealTime

if TYPE_CHECKING:
    from emulator.compose.edges import Origins


def clear_ready_file(options: HostOptions) -> None:
    """Check the place of the ready file and take away an earlier one: before `run_host`, and before all that is slow.

    Raises `StartRefused`.
    """
    if options.ready_file is not None:
        check_place(options.ready_file)
        remove_earlier(options.ready_file)


def run_host(options: HostOptions) -> None:
    """Serve until SIGTERM or SIGINT. Raises `StartRefused` when the host cannot start."""
    began_s = time.monotonic()
    give_memory_back()
    share_turns()
    asyncio.run(_run(options, began_s))


async def _run(options: HostOptions, began_s: float) -> None:
    stopping = stop_on_signals()
    async with AsyncExitStack() as stack:
        report = await _start(options, stack)
        if options.ready_file is not None:
            write_ready_file(options.ready_file, report)
            stack.callback(remove_ready_file, options.ready_file)
        keep_what_is_there()
        _say(f"takohost is ready\n{report.table(time.monotonic() - began_s)}")
        await stopping.wait()
        _say("takohost is stopping")


def _say(text: str) -> None:
    """A line for people: where it cannot be written, on a full disk say, the host goes on."""
    with suppress(OSError):
        print(text, flush=True)


async def _start(options: HostOptions, stack: AsyncExitStack) -> ReadyReport:
    """Take what is needed before anything is written, then start; `stack` stops it all in reverse."""
    if options.token_file is not None:
        from emulator.compose.token_file import TokenFile

        TokenFile.load(options.token_file)
    runtime = find_runtime()
    listeners = bind_all(options.ports)
    stack.callback(listeners.close)
    state = StateDirectory.claim(options.state_dir)
    stack.callback(state.release)
    try:
        return await _start_on(options, runtime, listeners, state, stack)
    except OSError as error:
        raise FoundationUnusable(f"cannot use the state in {state.path}: {error}") from error


async def _start_on(
    options: HostOptions, runtime: Runtime, listeners: Listeners, state: StateDirectory, stack: AsyncExitStack
) -> ReadyReport:
    clock, real_time = load_clock(state.clock_file), RealTime()
    identity = server_identity(state.tls)
    workerd = await spawn_workerd_side(options, runtime, state, listeners, identity, clock, real_time, stack)
    # workerd starts on another processor while this one reads the rest of the program
    from emulator.compose.edges import serve_edges
    from emulator.compose.endpoints import SecureIngress
    from emulator.compose.host import Surroundings, start_host
    from emulator.compose.token_file import authenticator_of

    authenticator = authenticator_of(options.token_file)
    ingress = SecureIngress(address_of(listeners.secure), identity.ca)
    around = Surroundings(options, state, clock, real_time, workerd, ingress, runtime.parser)
    host = await start_host(around, stack)
    origins = await serve_edges(host, listeners, identity, authenticator, state.management_token, stack)
    return _report(origins, state, identity.ca)


def _report(origins: "Origins", state: StateDirectory, ca: Path) -> ReadyReport:
    return ReadyReport(
        pid=os.getpid(),
        api=origins.api,
        ingress=origins.ingress,
        ingress_tls=origins.ingress_tls,
        management=origins.management,
        management_token_file=state.management_token,
        ca=ca,
        state_dir=state.path,
        storage=f"SQLite files in {state.path} (WAL, synchronous=FULL)",
    )
