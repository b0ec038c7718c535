"""What executes now, by instance: contexts of this host and orphans of an earlier one. Starts and writes nothing."""

import asyncio
from collections.abc import Awaitable
from typing import Protocol

from emulator.runstore.address import RunAddress
from emulator.workflow.bell import Bell


class Execution(Protocol):
    """Code of an instance that acts, or may still act."""

    @property
    def address(self) -> RunAddress: ...

    @property
    def context_id(self) -> str | None:
        """None for code of an earlier host."""

    @property
    def version_uid(self) -> str | None:
        """None until it is known."""

    @property
    def ended(self) -> "asyncio.Future[None]":
        """Done once the stop is proven and the status that follows is durable."""

    def end(self, ending: str) -> Awaitable[None]:
        """Stop the code and publish the recorded intent; returns what `ended` waits for."""


class Executions:
    """At most one execution an instance. The bells ring when one has ended."""

    def __init__(self, *bells: Bell) -> None:
        self._by_address: dict[RunAddress, Execution] = {}
        self._bells = bells

    def __len__(self) -> int:
        return len(self._by_address)

    def __contains__(self, address: RunAddress) -> bool:
        return address in self._by_address

    def add(self, execution: Execution) -> None:
        """Register until it has ended."""
        assert execution.address not in self._by_address
        self._by_address[execution.address] = execution
        execution.ended.add_done_callback(lambda _: self._remove(execution))

    def of(self, address: RunAddress) -> Execution | None:
        return self._by_address.get(address)

    def all(self) -> tuple[Execution, ...]:
        return tuple(self._by_address.values())

    def of_workflow(self, workflow_uid: str) -> tuple[Execution, ...]:
        return tuple(e for address, e in self._by_address.items() if address.workflow_id == workflow_uid)

    async def end(self, address: RunAddress, ending: str) -> None:
        """Stop what executes for the instance, if anything, and wait until its end is durable."""
        execution = self._by_address.get(address)
        if execution is not None:
            await execution.end(ending)

    def _remove(self, execution: Execution) -> None:
        self._by_address.pop(execution.address, None)
        for bell in self._bells:
            bell.ring()
