"""The crash matrix in its small form: a kill for every change of every Form, at every point that all pass."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash_matrix import ACCEPTING, CARRYING_OUT, CHANGES, POINTS, REPLENISHING, cases


@pytest.mark.req("HA-53", "HA-80", "HA-81", "HA-46", "HA-62")
def test_every_change_survives_a_kill() -> None:
    command = [sys.executable, "-m", "tests.crash_matrix", "--small"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, cwd=Path(__file__).parents[3])
    assert done.returncode == 0, done.stdout + done.stderr
    kills = sum(len(points) for _, _, points in cases(is_small=True))
    assert done.stdout.endswith(f"\n{kills} kills survived, 0 wrong\n")


@pytest.mark.long
@pytest.mark.req("HA-53", "HA-80", "HA-81", "HA-46")
def test_every_change_survives_a_kill_at_every_point() -> None:
    command = [sys.executable, "-m", "tests.crash_matrix"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, cwd=Path(__file__).parents[3])
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_small_form_uses_every_point_that_all_changes_pass() -> None:
    small, whole = list(cases(is_small=True)), list(cases(is_small=False))
    always = CARRYING_OUT | ACCEPTING | REPLENISHING
    assert {point for _, _, points in small for point in points} == always
    assert [case[:2] for case in small] == [case[:2] for case in whole] == list(CHANGES)
    assert set(POINTS) > always
