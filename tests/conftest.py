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


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--req DW-34`: only the tests marked with that requirement."""
    parser.addoption("--req", metavar="ID", help="run only the tests marked with this requirement id")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what `--req` does not ask for."""
    wanted = config.getoption("--req")
    if wanted:
        kept = [item for item in items if any(wanted in mark.args for mark in item.iter_markers("req"))]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept
