"""The counter as a process of its own, asked over HTTP."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from emulator.demo.processes import CounterProcess


@pytest.fixture
def counter(tmp_path: Path) -> Iterator[CounterProcess]:
    refusals = [{"instance": "a", "effect": "charge", "times": 1}]
    started = CounterProcess(refusals, None, tmp_path / "ready.json")
    yield started
    started.stop()


def post(counter: CounterProcess, instance: str, step: str) -> int:
    body = {"instance": instance, "step": step}
    return httpx.post(f"http://{counter.address}/effects/{step}", json=body, trust_env=False).status_code


def test_effects_are_counted_in_order_and_refused_as_often_as_planned(counter: CounterProcess) -> None:
    assert [post(counter, "a", "charge"), post(counter, "b", "charge"), post(counter, "a", "charge")] == [503, 200, 200]
    seen = [(effect.n, effect.instance, effect.step, effect.status) for effect in counter.effects()]
    assert seen == [(1, "a", "charge", 503), (2, "b", "charge", 200), (3, "a", "charge", 200)]


@pytest.mark.parametrize("body", ["", "{", "[]", '{"instance": "a"}'])
def test_what_is_no_effect_is_not_counted(counter: CounterProcess, body: str) -> None:
    url = f"http://{counter.address}/effects/charge"
    assert httpx.post(url, content=body, trust_env=False).status_code == 400
    assert counter.effects() == ()


def test_the_host_dies_at_the_appointed_effect_which_is_counted(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as host:
        (tmp_path / "ready.json").write_text(json.dumps({"pid": host.pid}))
        counter = CounterProcess([], 2, tmp_path / "ready.json")
        post(counter, "a", "one")
        assert host.poll() is None
        post(counter, "a", "two")
        assert host.wait(10) == -9
    assert [effect.killed for effect in counter.effects()] == [False, True]
    counter.stop()
