"""Cases from other systems' trackers on a real host: races of steps, oversized results, Workflows of other Workers."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from emulator.client import WORKER_BUNDLE, WORKER_VERSION, RequestRefused
from emulator.demo.deploy import upload_bundle
from emulator.demo.fixture import FixtureVersion, ModuleSource
from tests.emulator.compose.hosts import DEADLINE_S, JS, TestHost, running_host, wait_until

pytestmark = pytest.mark.usefixtures("workerd")

SOURCE = """
const kinds = {
  async race(step) {
    const signal = step.waitForEvent("signal", { type: "go", timeoutSeconds: 60 });
    try { return { won: await Promise.race([signal, step.sleep("timeout", 5)]) ?? null }; }
    catch { return { caught: 1 }; } finally { globalThis.ran = true; }
  },
  async all(step) {
    await Promise.all([step.do("one", () => ({ n: 1 })), step.do("two", () => ({ n: 2 }))]);
  },
  async large(step) { await step.do("large", () => ({ t: "x".repeat(1048577) })); },
  async loop(step) {
    const got = [];
    for (let n = 1; n <= 3; n++) got.push(await step.do("s", () => ({ n })));
    return { got };
  },
  async nap(step) { await step.sleep("nap", 604800); return { at: Date.now() }; },
  async retry(step) {
    await step.do("flaky", () => { throw new Error("at " + Date.now()); }, { maxAttempts: 4, initialDelaySeconds: 3600 });
  },
};
export class Cases { run({ params }, step) { return kinds[params.kind](step); } }
export default {
  async fetch(request, env) {
    const instance = await env.WF.create({ params: { kind: "loop" } });
    return new Response(instance.id);
  },
};
"""


@pytest.fixture
def host(tmp_path: Path) -> Iterator[TestHost]:
    with running_host(tmp_path / "h") as started:
        yield started


def run(host: TestHost, workflow: str, kind: str) -> str:
    return host.management.create_instance(workflow, {"id": kind, "params": {"kind": kind}})


def ended(host: TestHost, workflow: str, kind: str) -> dict[str, object]:
    wait_until(lambda: host.management.instance(workflow, kind)["status"] in ("complete", "errored"))
    return host.management.instance(workflow, kind)


@pytest.mark.req("DW-31", "DW-16", "DW-32", "DW-34")
def test_overlaps_loops_and_oversized_results_end_as_the_contract_says_also_after_a_kill(tmp_path: Path) -> None:
    """E09, R01, R03, L03"""
    with running_host(tmp_path / "h") as host:
        workflow = host.deploy("cases", SOURCE, "Cases")
        for kind in ("race", "all", "large", "loop"):
            run(host, workflow, kind)
        reasons = {kind: ended(host, workflow, kind)["error"] for kind in ("race", "all", "large", "loop")}
        with pytest.raises(RequestRefused, match="instance_terminal"):
            host.management.send_event(workflow, "race", {"type": "go"})
        before = host.management.instances(workflow)
        host.process.kill()
    with running_host(tmp_path / "h") as host:
        assert host.management.instances(workflow) == before
        loop = host.management.instance(workflow, "loop")
        steps = host.management.instance(workflow, "large")["steps"]
    assert isinstance(reasons["race"], dict) and reasons["race"]["reason"] == "step_definition_mismatch"
    assert isinstance(reasons["all"], dict) and reasons["all"]["reason"] == "step_definition_mismatch"
    assert isinstance(reasons["large"], dict) and reasons["large"]["reason"] == "step_failed"
    assert [(step["state"], step["result"]) for step in steps] == [("failed", None)]
    assert loop["output"] == {"got": [{"n": 1}] * 3} and loop["steps"][0]["attempts"] == 1


@pytest.mark.req("DW-34", "DW-35")
def test_on_a_frozen_clock_nothing_moves_unasked_and_a_week_takes_seconds(host: TestHost) -> None:
    """C02, C04, C06"""
    workflow = host.deploy("cases", SOURCE, "Cases")
    now_ms = host.management.change_clock("freeze")["nowMs"]
    for kind in ("nap", "retry"):
        run(host, workflow, kind)
        wait_until(lambda kind=kind: host.management.instance(workflow, kind)["status"] == "sleeping")  # type: ignore[misc]
    reading = host.management.clock()
    assert reading["nowMs"] == now_ms and reading["nextDueMs"] == now_ms + 3_600_000
    host.management.change_clock("advance", b'{"seconds": 10800}')
    retried = host.management.instance(workflow, "retry")
    assert [each["message"] for each in retried["steps"][0]["attemptRecords"]] == [
        f"at {now_ms + hours * 3_600_000}" for hours in range(4)
    ]
    began_s = time.monotonic()
    host.management.change_clock("advance", b'{"seconds": 593999.999}')
    assert host.management.instance(workflow, "nap")["status"] == "sleeping"
    host.management.change_clock("advance", b'{"seconds": 0.001}')
    assert host.management.instance(workflow, "nap")["output"] == {"at": now_ms + 604_800_000}
    assert time.monotonic() - began_s < DEADLINE_S


@pytest.mark.req("DW-10", "WV-11", "WV-05")
def test_a_worker_starts_instances_of_another_workers_workflow_and_of_nothing_else(host: TestHost) -> None:
    """W07"""
    workflow = host.deploy("cases", SOURCE, "Cases")
    api = host.api()
    live, worker = api.find("test", "cases-v1"), api.find("test", "cases")
    assert live is not None and worker is not None
    caller = api.create(worker.form, "test", "caller", {})
    source = SOURCE.replace("export class Cases", "class Cases")
    version = FixtureVersion("c", "main.js", 10000, (ModuleSource("main.js", JS, source.encode()),))
    bundle = api.create(WORKER_BUNDLE, "test", "c-b", {"artifact": upload_bundle(version, host.management)})
    spec = {**live.spec, "worker": {"resourceUid": caller.uid}, "bundle": {"resourceUid": bundle.uid}}
    for wrong in ("00000000-0000-0000-0000-000000000000", worker.uid):
        binding = [{"name": "WF", "resource": {"resourceUid": wrong}}]
        with pytest.raises(RequestRefused):
            api.create(WORKER_VERSION, "test", "wrong", {**spec, "workflowBindings": binding})
    built = api.create(WORKER_VERSION, "test", "caller-v1", spec)
    weights = [{"workerVersion": {"resourceUid": built.uid}, "weight": 10000}]
    deployment = api.find("test", "cases-live")
    assert deployment is not None
    api.create(deployment.form, "test", "caller-live", {"worker": {"resourceUid": caller.uid}, "versions": weights})
    names = host.ingress.send("GET", "/").text
    hostname = next(word.strip('">/<') for word in names.replace("//", " ").split() if word.startswith("caller-"))
    made = host.ingress.send("GET", "/", headers={"Host": hostname})
    assert made.status_code == 200, made.text
    assert ended(host, workflow, made.text)["output"] == {"got": [{"n": 1}] * 3}
