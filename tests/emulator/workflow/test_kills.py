"""A host killed with SIGKILL at any point between two durable writes goes on as if it had not been."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from emulator.workflow import surroundings
from tests.emulator.workflow import fault_matrix
from tests.emulator.workflow.fault_matrix import POINTS, Run, kill_once, zygote
from tests.emulator.workflow.scenarios import SCENARIOS

_LATER = [
    (surroundings.CLAIMED, 2),
    (surroundings.CLAIMED, 4),
    (surroundings.MARKED, 2),
    (surroundings.MARKED, 3),
    (surroundings.SETTLED, 2),
    (surroundings.INTENDED, 2),
    (surroundings.INTENDED, 4),
    (surroundings.STOPPED, 3),
    (surroundings.STOPPED, 4),
    (surroundings.PUBLISHED, 2),
]
_OF_STEPS = (surroundings.CLAIMED, surroundings.INTENDED, surroundings.PUBLISHED)


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    with zygote() as one:
        yield one


def test_every_point_of_the_engine_is_tried() -> None:
    assert len(POINTS) == 17


@pytest.mark.req("DW-06", "DW-34", "DW-35", "DW-36", "DW-39", "DW-40", "RS-21", "RS-70")
@pytest.mark.parametrize(("point", "nth"), [*((point, 1) for point in POINTS), *_LATER])
def test_a_kill_repeats_nothing_that_was_acknowledged_and_loses_nothing(
    run: Run, tmp_path: Path, point: str, nth: int
) -> None:
    assert kill_once(run, tmp_path, "order", point, nth) == []


@pytest.mark.req("DW-17", "DW-31", "DW-34", "DW-35", "DW-36", "DW-38", "DW-39")
@pytest.mark.parametrize("point", _OF_STEPS)
@pytest.mark.parametrize("scenario", [name for name in SCENARIOS if name != "order"])
def test_a_kill_at_a_turn_of_any_kind_of_step_changes_no_history(
    run: Run, tmp_path: Path, scenario: str, point: str
) -> None:
    assert kill_once(run, tmp_path, scenario, point, 1) == []


@pytest.mark.long
@pytest.mark.req("DW-17", "DW-31", "DW-34", "DW-35", "DW-36", "DW-38", "DW-39", "DW-40")
def test_the_whole_fault_matrix() -> None:
    assert fault_matrix.main() == 0
