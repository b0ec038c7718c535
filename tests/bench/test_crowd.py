"""Many instances at once: how long they take and what memory they need. Printed, held against generous bounds only."""

import os
from pathlib import Path

import pytest

from tests.bench.crowds import Crowd, SlowServer
from tests.emulator.compose.hosts import running_host

pytestmark = pytest.mark.usefixtures("workerd")

DEADLINE_S = 100.0
GOAL_S = 8.0
EMPTY = 300
MIB = 1024 * 1024


def load() -> str:
    return "load " + " ".join(f"{figure:.1f}" for figure in os.getloadavg())


@pytest.mark.bench
@pytest.mark.req("DW-12")
def test_300_instances_whose_effect_waits_for_2_seconds(tmp_path: Path) -> None:
    before = load()
    with SlowServer(2.0) as server, running_host(tmp_path / "h", "--allow-outbound", server.address) as host:
        crowd = Crowd(host, f"http://{server.address}/")
        took_s = crowd.run("wait", 300, DEADLINE_S)
        contexts = crowd.contexts()
    print(
        f"\n300 instances that wait 2 s each: {took_s:.2f} s (goal {GOAL_S} s), {sum(contexts)} contexts, "
        f"{crowd.cpu_s:.2f} s of processor time, at the peak "
        f"{crowd.peak_processes} processes with {crowd.peak_pss / MIB:.0f} MiB PSS ({before} before, {load()} after)"
    )
    assert took_s < DEADLINE_S


@pytest.mark.bench
@pytest.mark.req("DW-21")
def test_how_many_contexts_that_do_nothing_a_host_takes_a_second(tmp_path: Path) -> None:
    before = load()
    with running_host(tmp_path / "h") as host:
        crowd = Crowd(host, "")
        took_s = crowd.run("empty", EMPTY, DEADLINE_S)
    print(
        f"\n{EMPTY} contexts of one empty step: {took_s:.2f} s, {EMPTY / took_s:.0f}/s, "
        f"{crowd.cpu_s * 1000 / EMPTY:.1f} ms of processor time each, the host's start in it ({before} before, {load()} after)"
    )


@pytest.mark.bench
@pytest.mark.req("DW-10")
def test_64_parents_that_poll_a_child_inside_an_effect_complete_with_4_runners(tmp_path: Path) -> None:
    before = load()
    with running_host(tmp_path / "h", "--runners", "4") as host:
        crowd = Crowd(host, "")
        took_s = crowd.run("parent", 64, DEADLINE_S)
        assert crowd.statuses() == {"complete": 128}
    print(
        f"\n64 parents that poll a child each, 4 runners: {took_s:.2f} s, {crowd.cpu_s:.2f} s of processor time, "
        f"at the peak {crowd.peak_processes} processes with {crowd.peak_pss / MIB:.0f} MiB PSS ({before} before, {load()} after)"
    )
