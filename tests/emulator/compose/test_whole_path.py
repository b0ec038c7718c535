"""The main job through every layer: deploy over HTTPS, run in workerd, kill, restart, complete."""

import json
from pathlib import Path

import pytest

from emulator.demo.processes import CounterProcess
from tests.emulator.compose.hosts import TestHost, running_host, wait_until

pytestmark = pytest.mark.usefixtures("workerd")

SLEEPER = """
export class Sleeper {
  constructor(env) { this.env = env; }
  async run({ instanceId }, step) {
    const post = (name) => fetch(this.env.URL + "/effects/" + name,
      { method: "POST", body: JSON.stringify({ instance: instanceId, step: name }) }).then((r) => r.json());
    const before = await step.do("before", () => post("before"));
    await step.sleep("week", 7 * 86400);
    const after = await step.do("after", () => post("after"));
    return { before: before.receipt, after: after.receipt, now: Date.now() };
  }
}
export default {
  async fetch(request, env) {
    const id = decodeURIComponent(new URL(request.url).pathname.slice(1));
    if (request.method === "POST") return new Response((await env.WF.create({ id })).id);
    return Response.json(await (await env.WF.get(id)).status());
  },
};
"""
SPINNER = """
export class Spinner {
  async run({ instanceId }) {
    if (instanceId === "spin") while (true) {}
    return { id: instanceId };
  }
}
export default {
  async fetch(request, env) {
    const id = new URL(request.url).pathname.slice(1);
    if (request.method === "POST") return new Response((await env.WF.create({ id })).id);
    if (request.method === "DELETE") { await (await env.WF.get(id)).terminate(); return new Response(); }
    return Response.json(await (await env.WF.get(id)).status());
  },
};
"""
FETCHER = """
export class Idle { async run() {} }
export default {
  async fetch(request) {
    const url = new URL(request.url).searchParams.get("url");
    try { return new Response(String((await fetch(url)).status)); }
    catch (error) { return new Response(error.name + ": " + error.message); }
  },
};
"""


def status(host: TestHost, instance: str) -> str:
    return str(host.ask(f"/{instance}").json().get("status"))


@pytest.mark.req("DW-34", "DW-35", "HA-80")
def test_an_instance_sleeps_through_a_kill_and_completes_when_the_clock_says_so(tmp_path: Path) -> None:
    counter = CounterProcess([], None, tmp_path / "none")
    options = ("--allow-outbound", counter.address)
    identifier = "week/of \N{OCTOPUS}"
    with running_host(tmp_path / "h", *options) as host:
        workflow = host.deploy("sleeper", SLEEPER, "Sleeper", {"URL": f"http://{counter.address}"})
        host.management.change_clock("freeze")
        path = "/week%2Fof%20%F0%9F%90%99"
        assert host.ask(path, "POST").text == identifier
        wait_until(lambda: host.ask(path).json()["status"] == "sleeping")
        host.process.kill()
    with running_host(tmp_path / "h", *options) as host:
        host.management.change_clock("advance", json.dumps({"seconds": 7 * 86400 - 0.001}).encode())
        assert host.ask(path).json()["status"] == "sleeping"
        now_ms = host.management.change_clock("advance", b'{"seconds": 0.001}')["nowMs"]
        shown = host.management.instance(workflow, identifier)
    assert shown["status"] == "complete"
    assert shown["output"] == {"before": "before-1", "after": "after-2", "now": now_ms}
    assert [effect.step for effect in counter.effects()] == ["before", "after"]
    assert [context["stop"]["kind"] for context in shown["contexts"]] == ["ack", "ack"]
    counter.stop()


@pytest.mark.req("DW-17", "DW-39")
def test_an_endless_loop_holds_up_neither_others_nor_the_host_and_can_be_terminated(tmp_path: Path) -> None:
    with running_host(tmp_path / "h") as host:
        workflow = host.deploy("spinner", SPINNER, "Spinner")
        host.ask("/spin", "POST")
        wait_until(lambda: status(host, "spin") == "running")
        runners = set(host.children())
        host.ask("/quick", "POST")
        wait_until(lambda: status(host, "quick") == "complete")
        assert host.api().support("https://edge.forms.takoform.com/forms/DurableWorkflow/0.3.0/")["supported"]
        assert host.ask("/spin", "DELETE").status_code == 200
        assert status(host, "spin") == "terminated"
        [context] = host.management.instance(workflow, "spin")["contexts"]
        assert (context["stop"]["kind"], context["stop"]["exitStatus"]) == ("exit", -9)
        assert context["pid"] in runners
        assert context["pid"] not in host.children()


@pytest.mark.req("MW-15", "MW-16")
def test_a_worker_reaches_none_of_the_hosts_own_listeners(tmp_path: Path) -> None:
    with running_host(tmp_path / "h", "--allow-outbound", "local") as host:
        host.deploy("fetcher", FETCHER, "Idle")
        for origin in (host.ready.api, host.ready.management, host.ready.ingress):
            port = origin.rpartition(":")[2]
            for name in ("localhost", "127.0.0.1", "[::1]", "127.1", "[::ffff:127.0.0.1]", "0.0.0.0"):
                for scheme in ("http", "https"):
                    answer = host.ask(f"/?url={scheme}://{name}:{port}/v1/clock").text
                    assert answer.startswith("TypeError: "), (scheme, name, answer)
