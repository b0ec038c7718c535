"""The demo as `make demo` runs it, on a fixture with shorter waits."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("workerd")
ORDER_WORKFLOW = Path(__file__).parents[3] / "fixtures" / "order-workflow"


@pytest.fixture
def fixture(tmp_path: Path) -> Path:
    folder = Path(shutil.copytree(ORDER_WORKFLOW, tmp_path / "fixture"))
    document = json.loads((folder / "fixture.json").read_text())
    document["vars"] = {"PAYMENT_TIMEOUT_SECONDS": 4, "PACKING_SECONDS": 1}
    (folder / "fixture.json").write_text(json.dumps(document))
    return folder


def run_demo(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "emulator.demo", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def tell(*words: str) -> dict[str, Any]:
    ended = run_demo("--json", *words)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    document: dict[str, Any] = json.loads(ended.stdout)
    return document


@pytest.mark.req("DW-32", "DW-34", "DW-35", "DW-36", "DW-39", "HA-81")
def test_orders_complete_through_a_kill_and_every_completed_step_ran_once(fixture: Path) -> None:
    told = tell("--fixture", str(fixture))
    assert (told["ok"], told["faults"], told["notes"]) == (True, [], [])
    first = told["seen"]["order-1001"]
    assert first["output"]["outcome"] == "shipped"
    charge = next(step for step in first["steps"] if step["name"] == "charge")
    assert (charge["attempts"], charge["state"]) == (3, "succeeded")
    assert told["seen"]["order-1003"]["output"]["outcome"] == "cancelled"
    assert all(context["stop_kind"] for seen in told["seen"].values() for context in seen["contexts"])


@pytest.mark.req("DW-34", "HA-81")
def test_a_kill_in_the_middle_of_an_effect_repeats_that_effect_alone(fixture: Path) -> None:
    told = tell("--fixture", str(fixture), "--kill-at", "4")
    assert (told["ok"], told["faults"]) == (True, [])
    assert sum(effect["killed"] for effect in told["effects"]) == 1


def test_a_broken_fixture_ends_the_demo_in_one_line(tmp_path: Path) -> None:
    ended = run_demo("--fixture", str(tmp_path / "none"))
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == f"demo: cannot read {tmp_path / 'none' / 'fixture.json'}: No such file or directory\n"


def test_code_that_cannot_be_deployed_ends_the_demo_with_the_reason(fixture: Path) -> None:
    (fixture / "v2" / "order.js").write_text("export class OrderWorkflow {")
    ended = run_demo("--fixture", str(fixture))
    assert ended.returncode == 1
    assert "order.js" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_kill_at_an_effect_that_never_comes_is_told_with_the_number_of_effects(fixture: Path) -> None:
    ended = run_demo("--fixture", str(fixture), "--kill-at", "99")
    assert ended.returncode == 1
    assert re.search(r"it has [1-9]\d* effects, so there is no effect 99\n", ended.stderr)


def test_a_wrong_moment_is_a_usage_error() -> None:
    assert run_demo("--kill-at", "0").returncode == 2
