"""Random programs on real workerd, through kills of the host, against the pure model; and a year of one instance."""

import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emulator.client import RequestRefused
from emulator.workflow import ErrorName
from host.model.time import timestamp
from tests.emulator.compose.hosts import DEADLINE_S, TestHost, running_host
from tests.emulator.workflow.model import Do, Model, Op, Program, Sleep, Wait
from tests.emulator.workflow.programs import Action, Advance, Reweigh, Send, Terminate, actions, programs

pytestmark = pytest.mark.usefixtures("workerd")

PROGRAMS_EACH = 6
PROGRAM = """
const one = (op, step, created) => {
  if (op.kind === "sleep") return step.sleep(op.name, op.seconds);
  if (op.kind === "wait") return step.waitForEvent(op.name, { type: op.type, timeoutSeconds: op.timeout });
  return step.do(op.name, () => {
    if (Date.now() < created + op.okAfter * 1000) throw new Error("too early");
    return { of: op.name };
  }, op.policy);
};
export class Interpreter {
  async run({ params }, step) {
    const given = [];
    for (const op of params.ops) {
      try {
        given.push((await one(op, step, params.created)) ?? null);
      } catch (error) {
        if (!op.caught) throw error;
        given.push({ caught: error.name === "step_failed" ? "failed" : error.name === "wait_timeout" ? "timeout" : error.name });
      }
    }
    if (params.throws) throw new Error("thrown");
    return { given };
  }
}
export default { fetch() { return new Response(); } };
"""
YEAR = """
const HOUR = 3600000;
export class Year {
  async run({ params: { start } }, step) {
    let late = 0;
    for (let week = 0; week < 52; week++) {
      const from = start + week * 168 * HOUR;
      await step.do("report " + week, () => {
        if (Date.now() < from + 24 * HOUR) throw new Error("not ready");
        return { at: Date.now() };
      }, { maxAttempts: 3, initialDelaySeconds: 43200 });
      for (const hour of [1, 2]) {
        try { await step.waitForEvent("signal " + week + "/" + hour, { type: "go", timeoutSeconds: 3600 }); }
        catch (error) { if (error.name !== "wait_timeout") throw error; late++; }
      }
      await step.sleep("week " + week, (from + 168 * HOUR - Date.now()) / 1000);
    }
    return { late, now: Date.now() };
  }
}
export default { fetch() { return new Response(); } };
"""


def op_document(op: Op) -> dict[str, object]:
    match op:
        case Do():
            policy = {} if op.policy is None else {"policy": op.policy.document()}
            return {"kind": "do", "name": op.name, "okAfter": op.ok_after_s, "caught": op.is_caught, **policy}
        case Sleep():
            return {"kind": "sleep", "name": op.name, "seconds": op.seconds, "caught": op.is_caught}
        case Wait():
            settings = {"type": op.type, "timeout": op.timeout_s}
            return {"kind": "wait", "name": op.name, "caught": op.is_caught, **settings}


def without_deaths(program: Program) -> Program:
    ops = tuple(replace(op, deaths=0) if isinstance(op, Do) else op for op in program.ops)
    return replace(program, ops=ops)


def shown(model: Model) -> dict[str, object]:
    """What the management listener is to show of the instance."""
    steps = [
        [name, r.kind, r.state, r.outcomes, None if r.settled_ms is None else timestamp(r.settled_ms)]
        for name, r in model.steps.items()
    ]
    events = [event_type for event_type, _ in model.events]
    return {"status": model.status, "reason": model.reason, "output": model.output, "steps": steps, "events": events}


def seen(host: TestHost, workflow: str, number: int) -> dict[str, object] | None:
    try:
        found = host.management.instance(workflow, f"i{number}")
    except RequestRefused as refused:
        assert refused.status == 404
        return None
    steps = [
        [s["name"], s["kind"], s["state"], [a["outcome"] for a in s["attemptRecords"]], s["settledAt"]]
        for s in found["steps"]
    ]
    return {
        "status": found["status"],
        "reason": (found["error"] or {}).get("reason", ""),
        "output": found["output"],
        "steps": steps,
        "events": [event["type"] for event in found["events"]],
    }


def act(host: TestHost, workflow: str, models: Sequence[Model], action: Action) -> None:
    """Do it to the host and to the model; both must refuse the same."""
    refused = None
    try:
        act_on_host(host, workflow, len(models), action)
    except RequestRefused as error:
        refused = error.code
    assert refused == act_on_models(models, action)


def act_on_host(host: TestHost, workflow: str, instances: int, action: Action) -> None:
    match action:
        case Advance():
            host.management.change_clock("advance", json.dumps({"seconds": action.seconds}).encode())
        case Send():
            event = {"type": action.type, "payload": {"n": 1}}
            host.management.send_event(workflow, f"i{action.instance % instances}", event)
        case Terminate():
            host.management.terminate(workflow, f"i{action.instance % instances}")
        case Reweigh():
            pass  # there is one Version


def act_on_models(models: Sequence[Model], action: Action) -> ErrorName | None:
    match action:
        case Advance():
            for model in models:
                model.advance(action.seconds)
        case Send():
            return models[action.instance % len(models)].send(action.type, {"n": 1})
        case Terminate():
            return models[action.instance % len(models)].terminate()
        case Reweigh():
            pass
    return None


def agree(host: TestHost, workflow: str, models: Sequence[Model]) -> None:
    """Return once every instance is what its model is; fails with the difference after the deadline."""
    until_s = time.monotonic() + DEADLINE_S
    for number, model in enumerate(models):
        expected = None if model.is_gone else shown(model)
        while (found := seen(host, workflow, number)) != expected and time.monotonic() < until_s:
            time.sleep(0.01)
        assert found == expected


def live(programs: Sequence[Program], history: Sequence[Action], kill_at: int) -> None:
    """One host, killed right after the action number `kill_at`, before anything came to rest."""
    with tempfile.TemporaryDirectory() as folder:
        with running_host(Path(folder) / "h") as host:
            workflow = host.deploy("programs", PROGRAM, "Interpreter")
            now_ms = host.management.change_clock("freeze")["nowMs"]
            for number, program in enumerate(programs):
                params = {
                    "created": now_ms,
                    "ops": [op_document(op) for op in program.ops],
                    "throws": program.throws,
                }
                host.management.create_instance(workflow, {"id": f"i{number}", "params": params})
            models = [Model(program, now_ms) for program in programs]
            for action in history[:kill_at]:
                agree(host, workflow, models)
                act(host, workflow, models, action)
            host.process.kill()
        with running_host(Path(folder) / "h") as host:
            for action in history[kill_at:]:
                agree(host, workflow, models)
                act(host, workflow, models, action)
            agree(host, workflow, models)


_cases = (
    st.lists(programs.map(without_deaths), min_size=PROGRAMS_EACH, max_size=PROGRAMS_EACH),
    st.lists(actions, min_size=3, max_size=8),
    st.integers(0, 3),
)
_quiet = {"deadline": None, "database": None, "suppress_health_check": list(HealthCheck)}


@pytest.mark.req("DW-20", "DW-21", "DW-32", "DW-34", "DW-35", "DW-36", "DW-37", "DW-38", "DW-40")
@given(*_cases)
@settings(max_examples=2, derandomize=True, **_quiet)  # type: ignore[arg-type]
def test_some_random_programs_come_to_what_the_model_says(
    programs: list[Program], history: list[Action], kill_at: int
) -> None:
    live(programs, history, kill_at)


@pytest.mark.long
@pytest.mark.req("DW-20", "DW-21", "DW-32", "DW-34", "DW-35", "DW-36", "DW-37", "DW-38", "DW-40")
@given(*_cases)
@settings(max_examples=60, **_quiet)  # type: ignore[arg-type]
def test_many_random_programs_come_to_what_the_model_says(
    programs: list[Program], history: list[Action], kill_at: int
) -> None:
    live(programs, history, kill_at)


@pytest.mark.req("DW-24", "DW-34", "DW-35", "DW-36")
def test_a_year_of_sleeps_hourly_waits_and_half_day_retries_takes_seconds(tmp_path: Path) -> None:
    with running_host(tmp_path / "h") as host:
        workflow = host.deploy("year", YEAR, "Year")
        start_ms = host.management.change_clock("freeze")["nowMs"]
        host.management.create_instance(workflow, {"id": "year", "params": {"start": start_ms}})
        began_s = time.monotonic()
        for days in [7] * 51 + [6]:
            host.management.change_clock("advance", json.dumps({"seconds": days * 86_400}).encode())
        assert host.management.instance(workflow, "year")["status"] == "sleeping"
        host.management.change_clock("advance", b'{"seconds": 86400}')
        took_s = time.monotonic() - began_s
        found = host.management.instance(workflow, "year")
        contexts = len(found["contexts"])
        print(f"\na year in {took_s:.1f} s: {contexts} contexts, {took_s / contexts * 1000:.1f} ms each")
        assert found["status"] == "complete", found["error"]
        assert found["output"] == {"late": 104, "now": start_ms + 364 * 86_400_000}
        reports = [step for step in found["steps"] if step["kind"] == "do"]
        assert [step["attempts"] for step in reports] == [3] * 52
        assert contexts == 1 + 52 * 5
