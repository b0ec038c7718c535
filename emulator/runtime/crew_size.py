"""How many processes should answer requests, going by what those there are burn. Starts none."""

import os
from collections.abc import Collection

from emulator.runtime.gateway_process import GatewayProcess

BUSY_SHARE = 0.7
"""Of a processor: when each process burns so much, another one joins."""
CALM_SHARE = 0.5
"""Of a processor: when all of them together burn less for `CALM_S`, one is enough."""
CALM_S = 30.0


def default_processes() -> int:
    """The most that a host has: one per processor, 4 at most."""
    return min(os.cpu_count() or 1, 4)


class CrewSize:
    """`wanted` processes, from 1 to `most`."""

    def __init__(self, most: int) -> None:
        self.wanted = 1
        self._most = most
        self._shares: dict[GatewayProcess, float] = {}
        self._busy_at_s = 0.0

    def note(self, process: GatewayProcess, share: float, crew: Collection[GatewayProcess], now_s: float) -> None:
        """`process`, of this crew, burnt such a share of a processor lately."""
        self._shares[process] = share
        shares = [self._shares.get(each, 0.0) for each in crew]
        if sum(shares) >= CALM_SHARE:
            self._busy_at_s = now_s
        if len(shares) == self.wanted and min(shares) >= BUSY_SHARE:
            self.wanted = min(self.wanted + 1, self._most)
        elif now_s - self._busy_at_s >= CALM_S:
            self.wanted = 1

    def forget(self, process: GatewayProcess) -> None:
        """The process has ended."""
        self._shares.pop(process, None)
