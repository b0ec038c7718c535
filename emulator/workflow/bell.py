"""A bell that several tasks may wait for without missing a ring. Knows nothing of who rings."""

import asyncio


class Bell:
    """`count` grows with each ring: read it, look at the world, then wait for a ring after that count."""

    def __init__(self) -> None:
        self.count = 0
        self._next = asyncio.Event()

    def ring(self) -> None:
        self.count += 1
        heard, self._next = self._next, asyncio.Event()
        heard.set()

    async def after(self, count: int) -> None:
        """Return when the bell has rung more than `count` times."""
        while self.count <= count:
            await self._next.wait()
