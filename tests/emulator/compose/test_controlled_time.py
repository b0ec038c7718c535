"""Contract time through the whole host: management moves it, HTTP handlers and instances see the same instants (C07)."""

import json
from pathlib import Path

import pytest

from tests.emulator.compose.hosts import TestHost, running_host, wait_until

pytestmark = [pytest.mark.usefixtures("workerd"), pytest.mark.req("DW-35", "DW-41")]

SOURCE = """
export class Nap {
  async run(_, step) {
    await step.sleep("nap", 3600);
    return { woke: await step.do("woke", () => ({ at: Date.now() })) };
  }
}
export default {
  async fetch(request, env) {
    if (request.method === "POST") return new Response((await env.WF.create({ id: "a" })).id);
    return Response.json([Date.now(), new Date().toISOString()]);
  },
};
"""


def clock(host: TestHost, change: str, body: object = None) -> tuple[int, str]:
    """Instant and text of the clock after a change."""
    told = host.management.change_clock(change, json.dumps(body or {}).encode())
    return told["nowMs"], told["now"]


def seen(host: TestHost) -> tuple[int, str]:
    now_ms, text = host.ask("/").json()
    return now_ms, text


def test_a_handler_and_an_instance_see_the_instant_that_management_set(tmp_path: Path) -> None:
    with running_host(tmp_path / "h") as host:
        workflow = host.deploy("nap", SOURCE, "Nap")
        host.ask("/")
        frozen = clock(host, "freeze")
        assert seen(host) == frozen
        host.ask("/", "POST")
        wait_until(lambda: host.management.instance(workflow, "a")["status"] == "sleeping")
        moved = clock(host, "advance", {"seconds": 3599})
        assert seen(host) == moved
        assert moved[0] == frozen[0] + 3_599_000
        assert host.management.instance(workflow, "a")["status"] == "sleeping"
        moved = clock(host, "advance", {"seconds": 86400})
        assert seen(host) == moved
        assert host.management.instance(workflow, "a")["output"] == {"woke": {"at": frozen[0] + 3_600_000}}
        host.process.kill()
    with running_host(tmp_path / "h") as host:
        assert seen(host) == moved
        thawed, _ = clock(host, "thaw")
        now_ms, _ = seen(host)
        assert thawed <= now_ms < thawed + 60_000
