"""A task that acts while there is something to act on, then sleeps until a bell rings or the clock has come to more.

Never polls. Knows not what it does: that is given.
"""

import asyncio
from collections.abc import Awaitable, Callable

from emulator.workflow.bell import Bell
from emulator.workflow.surroundings import Surroundings
from host.model.faults import InjectedFault
from host.sqlite import DatabaseError


class Ticker:
    """`act(now_ms)` does one bounded piece of work and gives the instant from which there is more: now or earlier for
    at once, None when only a ring brings more. A store that fails is tried again."""

    def __init__(
        self, name: str, surroundings: Surroundings, bell: Bell, act: Callable[[int], Awaitable[int | None]]
    ) -> None:
        self._name = name
        self._around = surroundings
        self._bell = bell
        self._act = act
        self._loop: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Without effect while it runs."""
        if self._loop is None:
            self._loop = asyncio.create_task(self._run(), name=self._name)

    async def stop(self) -> None:
        """Act no more; a batch that is queued is committed."""
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.wait([self._loop])
            self._loop = None

    async def _run(self) -> None:
        while True:
            heard = self._bell.count
            now_ms = self._around.clock.now_ms()
            try:
                next_ms = await self._act(now_ms)
            except (DatabaseError, InjectedFault) as error:
                await self._around.pause_after(error, f"{self._name} is tried again")
                continue
            self._around.activity.ring()
            if next_ms is None:
                await self._bell.after(heard)
            elif next_ms > now_ms:
                await self._wait(heard, next_ms)

    async def _wait(self, heard: int, next_ms: int) -> None:
        """Until the bell rings or the clock reaches the instant."""
        waits = {
            asyncio.create_task(self._bell.after(heard)),
            asyncio.create_task(self._around.clock.sleep_until(next_ms)),
        }
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()
            await asyncio.wait(waits)
