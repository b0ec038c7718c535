"""Fixtures of the Host API's tests."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.host.api import Api, running_api


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """A running Host API on an empty database."""
    async with running_api(tmp_path / "control.sqlite") as running:
        yield running
