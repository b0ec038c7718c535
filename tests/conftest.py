"""Fixtures that any test may use. Knows where the runtime is only through the real locator."""

from pathlib import Path

import pytest

from emulator.runtime.locate import Runtime, locate_runtime
from emulator.runtime.unusable import RuntimeUnusable


@pytest.fixture(scope="session")
def runtime() -> Runtime:
    """workerd and the parser; their absence fails the test with the locator's own sentence, it never skips."""
    try:
        return locate_runtime()
    except RuntimeUnusable as reason:
        pytest.fail(str(reason), pytrace=False)


@pytest.fixture(scope="session")
def workerd(runtime: Runtime) -> Path:
    """The workerd program."""
    return runtime.workerd
