"""Fault points act on the armed occasion only."""

import pytest

from host.model import faults
from host.model.faults import FaultAction, FaultPoints, InjectedFault, UnknownFaultPoint

POINT = faults.register("test.point", "between nothing and nothing")


def test_a_point_acts_on_the_nth_occasion_once() -> None:
    points = FaultPoints.none()
    points.arm(POINT, nth=3, action=FaultAction.ERROR)
    points.reach(POINT)
    points.reach(POINT)
    with pytest.raises(InjectedFault, match=POINT):
        points.reach(POINT)
    points.reach(POINT)


def test_a_kill_is_carried_out_by_what_the_host_was_given() -> None:
    killed: list[bool] = []
    points = FaultPoints(kill=lambda: killed.append(True))
    points.arm(POINT)
    points.reach(POINT)
    assert killed == [True]


def test_other_points_and_disarmed_ones_do_nothing() -> None:
    points = FaultPoints.none()
    points.arm(POINT, action=FaultAction.ERROR)
    points.reach("test.other")
    points.disarm()
    points.reach(POINT)


def test_an_undeclared_name_and_a_bad_count_are_refused() -> None:
    points = FaultPoints.none()
    with pytest.raises(UnknownFaultPoint, match="nowhere"):
        points.arm("nowhere")
    with pytest.raises(ValueError, match="counts from 1"):
        points.arm(POINT, nth=0)


def test_one_name_has_one_meaning() -> None:
    assert faults.register(POINT, "between nothing and nothing") == POINT
    with pytest.raises(ValueError, match="twice"):
        faults.register(POINT, "something else")
    assert faults.registered()[POINT] == "between nothing and nothing"


def test_a_delay_holds_up_the_occasion_and_no_other() -> None:
    slept: list[float] = []
    points = FaultPoints(sleep=slept.append)
    points.arm(POINT, nth=2, action=FaultAction.DELAY, delay_s=2.5)
    for _ in range(3):
        points.reach(POINT)
    assert slept == [2.5]
    for seconds in (-1.0, 61.0, float("nan")):
        with pytest.raises(ValueError, match="delay"):
            points.arm(POINT, action=FaultAction.DELAY, delay_s=seconds)
