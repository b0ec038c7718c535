"""A host killed with SIGKILL at any point between two durable writes goes on as if it had not been."""

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from emulator.workflow import surroundings
from host.model.faults import registered

Run = Callable[[Path, int, str | None, int], int]
_AT_START = (surroundings.FENCED, surroundings.RECOVERED)
_POINTS = [name for name in registered() if name.startswith("workflow.")]
_LATER = [
    (surroundings.CLAIMED, 2),
    (surroundings.CLAIMED, 4),
    (surroundings.SETTLED, 2),
    (surroundings.INTENDED, 2),
    (surroundings.INTENDED, 4),
    (surroundings.INTENDED, 5),
    (surroundings.STOPPED, 3),
    (surroundings.STOPPED, 4),
    (surroundings.PUBLISHED, 2),
    (surroundings.PUBLISHED, 5),
]


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Runs one host in a process of its own to its end; gives the exit status as `subprocess` counts it."""
    zygote = subprocess.Popen(
        [sys.executable, "-m", "tests.emulator.workflow.victim"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    assert zygote.stdin is not None and zygote.stdout is not None
    stdin, stdout = zygote.stdin, zygote.stdout

    def run_one(folder: Path, boot_number: int, point: str | None, nth: int) -> int:
        stdin.write(json.dumps([str(folder), boot_number, point, nth]) + "\n")
        stdin.flush()
        return int(stdout.readline())

    yield run_one
    stdin.close()
    zygote.wait(timeout=10)
    stdout.close()


def _assert_whole(folder: Path, unacknowledged: str | None) -> None:
    report = json.loads((folder / "report").read_text())
    assert report == {
        "output": {"amount": 5},
        "steps": [
            ["reserve", "succeeded", 1],
            ["charge", "succeeded", 2],
            ["paid", "succeeded", 1],
            ["ship", "succeeded", 1],
            ["mail", "succeeded", 1],
        ],
        "is_proven": True,
    }
    effects = Counter((folder / "effects").read_text().split())
    if unacknowledged is not None:
        effects[unacknowledged] -= 1
    assert effects == {"reserve": 1, "charge": 2, "mail": 1}


def test_every_point_of_the_engine_is_tried() -> None:
    assert len(_POINTS) == 15


@pytest.mark.req("DW-06", "DW-17", "DW-34", "DW-35", "DW-36", "DW-39", "RS-21", "RS-70")
@pytest.mark.parametrize(("point", "nth"), [*((point, 1) for point in _POINTS), *_LATER])
def test_a_kill_repeats_nothing_that_was_acknowledged_and_loses_nothing(
    run: Run, tmp_path: Path, point: str, nth: int
) -> None:
    boots = 0
    if point in _AT_START:
        assert run(tmp_path, boots, surroundings.INTENDED, 1) == -signal.SIGKILL
        boots += 1
    assert run(tmp_path, boots, point, nth) == -signal.SIGKILL
    status = run(tmp_path, boots + 1, None, 1)
    crash = tmp_path / "crash"
    assert status == 0, crash.read_text() if crash.exists() else "killed"
    ran_before_its_commit = "reserve" if (point, nth) == (surroundings.RECORDED, 1) else None
    _assert_whole(tmp_path, ran_before_its_commit)
