"""Boots of the engine that are closed with the test."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from host.model.time import ControlledClock
from tests.emulator.workflow.hosts import START_MS, Host, boot

Boot = Callable[..., Awaitable[Host]]


@pytest.fixture
def clock() -> ControlledClock:
    return ControlledClock.frozen(START_MS)


@pytest.fixture
async def start(tmp_path: Path, clock: ControlledClock) -> AsyncIterator[Boot]:
    """`await start(Flow=body)` boots a host with one Deployment of Version `v1`; again for a second boot."""
    hosts: list[Host] = []

    async def start_one(*versions: str, **options: Any) -> Host:
        host = await boot(tmp_path / "emulator.sqlite", clock, prefix=f"b{len(hosts)}-", **options)
        hosts.append(host)
        await host.deploy(*(versions or ("v1",)))
        return host

    yield start_one
    for host in hosts:
        await host.close()
