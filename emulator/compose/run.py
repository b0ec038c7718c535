"""Runs a host from its options until a signal: claims, builds, serves, says that it is ready, drains."""

import asyncio
import os
import signal
import time
from contextlib import AsyncExitStack
from pathlib import Path

from emulator.compose.authority import server_identity
from emulator.compose.edges import Origins, serve_edges
from emulator.compose.host import HostBuilder
from emulator.compose.listeners import bind_all
from emulator.compose.options import HostOptions
from emulator.compose.ready import ReadyReport, check_place, write_ready_file
from emulator.compose.runtime import find_runtime
from emulator.compose.state import StateDirectory


def run_host(options: HostOptions) -> None:
    """Serve until SIGTERM or SIGINT. Raises `StartRefused` when the host cannot start."""
    began_s = time.monotonic()
    asyncio.run(_run(options, began_s))


async def _run(options: HostOptions, began_s: float) -> None:
    stopping = _stop_on_signals()
    if options.ready_file is not None:
        check_place(options.ready_file)
    runtime = find_runtime()
    async with AsyncExitStack() as stack:
        listeners = bind_all(options.ports)
        stack.callback(listeners.close)
        state = StateDirectory.claim(options.state_dir)
        stack.callback(state.release)
        identity = server_identity(state.tls)
        host = await HostBuilder(options, runtime, state, listeners, stack).build()
        origins = await serve_edges(host, listeners, identity, state.management_token, stack)
        report = _report(origins, state, identity.ca)
        if options.ready_file is not None:
            write_ready_file(options.ready_file, report)
            stack.callback(options.ready_file.unlink, missing_ok=True)
        print(f"takohost is ready\n{report.table(time.monotonic() - began_s)}", flush=True)
        await stopping.wait()
        print("takohost is stopping", flush=True)


def _stop_on_signals() -> asyncio.Event:
    """An event that the first SIGTERM or SIGINT sets; the next one has the system's own effect."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop() -> None:
        stopping.set()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    return stopping


def _report(origins: Origins, state: StateDirectory, ca: Path) -> ReadyReport:
    return ReadyReport(
        pid=os.getpid(),
        api=origins.api,
        ingress=origins.ingress,
        management=origins.management,
        management_token_file=state.management_token,
        ca=ca,
        state_dir=state.path,
        storage=f"SQLite files in {state.path} (WAL, synchronous=FULL)",
    )
