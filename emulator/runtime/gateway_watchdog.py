"""Finds a gateway whose event loop does not turn while it burns processor time, and kills it. Nothing else."""

import asyncio

from emulator.runtime.gateway_process import GatewayProcess
from emulator.runtime.identity import figures_of
from host.model.time import RealTime

CPU_LIMIT_S = 1.0
"""Processor time without a turn of the event loop that a request may take."""
LOAD_CPU_LIMIT_S = 10.0
"""The same while the code of a Version is compiled and evaluated, which inspection has seen to end."""
_LOOK_EVERY_S = 0.05


class GatewayWatchdog:
    """Watches one process at a time. An idle process is never pinged; processor time counts, not real time, so that
    a loaded machine is not taken for a loop."""

    def __init__(self, real_time: RealTime, cpu_limit_s: float = CPU_LIMIT_S) -> None:
        self._real_time = real_time
        self._cpu_limit_s = cpu_limit_s

    async def watch(self, process: GatewayProcess) -> int:
        """Return the exit status of the process once it has ended, killed from here or not."""
        looking = asyncio.create_task(self._look_until_spinning(process))
        try:
            return await asyncio.shield(process.exited)
        finally:
            looking.cancel()

    async def _look_until_spinning(self, process: GatewayProcess) -> None:
        turned_at_cpu_s = 0.0
        pongs = -1
        is_suspect = False
        while (figures := figures_of(process.workerd.child.pid)) is not None:
            if process.pongs != pongs:
                is_suspect = False
                if figures.cpu_s != turned_at_cpu_s:
                    turned_at_cpu_s, pongs = figures.cpu_s, process.pongs
                    process.ping()
            elif is_suspect:
                process.kill()
                return
            else:  # looked at once more before the kill: the pong may wait for our own busy loop
                limit_s = LOAD_CPU_LIMIT_S if process.loading else self._cpu_limit_s
                is_suspect = figures.cpu_s - turned_at_cpu_s >= limit_s
            await self._real_time.sleep_s(_LOOK_EVERY_S)
