"""A runner or the gateway killed with SIGKILL, on real workerd, at points between two durable writes: the history goes on,
no completed step runs again, no event is lost or served twice, only the interrupted effect may repeat."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from emulator.workflow import surroundings
from tests.emulator.workflow import process_matrix
from tests.emulator.workflow.on_workerd import SCENARIOS, Rig
from tests.emulator.workflow.process_matrix import LIVE_POINTS, Victim, live

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.usefixtures("workerd")]
STEPS = pytest.mark.req("DW-17", "DW-31", "DW-34", "DW-35", "DW-36", "DW-38", "DW-39")
_VICTIMS: tuple[Victim, ...] = ("runner", "gateway")
_LATER = [(surroundings.SETTLED, 2), (surroundings.INTENDED, 2), (surroundings.STOPPED, 3), (surroundings.CLAIMED, 3)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    async with Rig.open(tmp_path_factory.mktemp("rig")) as opened:
        yield opened


@STEPS
@pytest.mark.req("DW-06", "DW-40")
@pytest.mark.parametrize("victim", _VICTIMS)
@pytest.mark.parametrize(
    ("point", "nth"), [*((point, 1) for point in LIVE_POINTS if point != surroundings.RETIRED), *_LATER]
)
async def test_a_process_killed_at_any_point_repeats_nothing_that_was_settled(
    rig: Rig, tmp_path: Path, victim: Victim, point: str, nth: int
) -> None:
    faults, wrong = await live(rig, tmp_path, victim, "order", point, nth)
    assert wrong == [] and faults.killed


@STEPS
@pytest.mark.parametrize("scenario", [name for name in SCENARIOS if name != "order"])
async def test_a_runner_killed_when_its_context_has_begun_is_replayed(rig: Rig, tmp_path: Path, scenario: str) -> None:
    faults, wrong = await live(rig, tmp_path, "runner", scenario, surroundings.RECORDED, 1)
    assert wrong == [] and faults.killed


@pytest.mark.long
@STEPS
@pytest.mark.req("DW-06", "DW-40")
async def test_the_whole_matrix_of_killed_processes() -> None:
    assert await process_matrix.matrix() == []
