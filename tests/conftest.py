"""Fixtures that any test may use. Knows where the runtime is only through the real locator."""

import signal
from collections.abc import Generator
from pathlib import Path
from types import FrameType

import pytest

from emulator.runtime.locate import Runtime, locate_runtime
from emulator.runtime.unusable import RuntimeUnusable

HUNG_AFTER_S = 120
HUNG_LONG_AFTER_S = 3600
AGAIN_AFTER_S = 1
"""An event loop may swallow what is raised between two of its callbacks."""


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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test that hangs, a spinning one included, so that the run goes on and ends with a summary."""
    limit_s = HUNG_LONG_AFTER_S if item.get_closest_marker("long") else HUNG_AFTER_S

    def give_up(signal_number: int, frame: FrameType | None) -> None:
        pytest.fail(f"the test did not end within {limit_s} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, limit_s, AGAIN_AFTER_S)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
