"""Who waits in this process for an Operation to settle. Holds no state of its own worth keeping."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager


class Waiters:
    """Futures by Operation id, and one event for whoever waits for any settlement."""

    def __init__(self) -> None:
        self._by_operation: defaultdict[str, set[asyncio.Future[None]]] = defaultdict(set)
        self._any = asyncio.Event()

    @contextmanager
    def watching(self, operation_id: str) -> Iterator[asyncio.Future[None]]:
        """A future that ends when the Operation settles after the call."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._by_operation[operation_id].add(future)
        try:
            yield future
        finally:
            self._by_operation[operation_id].discard(future)
            if not self._by_operation[operation_id]:
                del self._by_operation[operation_id]

    @property
    def next_settlement(self) -> asyncio.Event:
        """Set by the next settlement of any Operation: take it before the look that decides to wait."""
        return self._any

    def announce(self, operation_id: str) -> None:
        """The Operation is settled and durable."""
        for future in self._by_operation.get(operation_id, ()):
            if not future.done():
                future.set_result(None)
        settled, self._any = self._any, asyncio.Event()
        settled.set()
