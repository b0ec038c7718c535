"""Changing and deleting what is deployed, through the Host API of a real host."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from emulator.client import WORKER_BUNDLE, WORKER_VERSION, HostApi, RequestRefused, Resource
from emulator.demo.deploy import upload_bundle
from emulator.demo.fixture import FixtureVersion, ModuleSource
from tests.emulator.compose.hosts import JS, TestHost, running_host, wait_until

pytestmark = pytest.mark.usefixtures("workerd")

SOURCE = """
export class Nap {
  async run(_, step) {
    await step.sleep("nap", 3600);
    return { edition: "EDITION" };
  }
}
export default {
  async fetch(request, env) {
    const id = new URL(request.url).pathname.slice(1);
    if (id === "") return new Response("EDITION");
    if (request.method === "POST") return new Response((await env.WF.create({ id })).id);
    return Response.json(await (await env.WF.get(id)).status());
  },
};
"""


@pytest.fixture
def host(tmp_path: Path) -> Iterator[TestHost]:
    with running_host(tmp_path / "h") as started:
        started.deploy("nap", SOURCE.replace("EDITION", "first"), "Nap")
        yield started


def found(api: HostApi, name: str) -> Resource:
    resource = api.find("test", name)
    assert resource is not None
    return resource


def add_version(host: TestHost, api: HostApi, edition: str, text: str = SOURCE) -> Resource:
    source = text.replace("EDITION", edition)
    version = FixtureVersion(edition, "main.js", 10000, (ModuleSource("main.js", JS, source.encode()),))
    artifact = upload_bundle(version, host.management)
    bundle = api.create(WORKER_BUNDLE, "test", edition, {"artifact": artifact})
    spec = {**found(api, "nap-v1").spec, "bundle": {"resourceUid": bundle.uid}}
    return api.create(WORKER_VERSION, "test", f"nap-{edition}", spec)


@pytest.mark.req("WD-03", "WD-04", "DW-23")
def test_new_weights_serve_the_next_request_and_the_next_context(host: TestHost) -> None:
    api = host.api()
    host.management.change_clock("freeze")
    host.ask("/a", "POST")
    wait_until(lambda: host.ask("/a").json()["status"] == "sleeping")
    assert host.ask("/").text == "first"
    second = add_version(host, api, "second")
    live = found(api, "nap-live")
    weights = [{"workerVersion": {"resourceUid": second.uid}, "weight": 10000}]
    api.update(live, {**live.spec, "versions": weights})
    assert host.ask("/").text == "second"
    host.management.change_clock("advance", b'{"seconds": 3600}')
    assert host.ask("/a").json()["output"] == {"edition": "second"}


@pytest.mark.req("WD-07", "DW-02")
def test_without_a_deployment_nothing_wakes_until_there_is_one_again(host: TestHost) -> None:
    api = host.api()
    workflow = found(api, "nap-workflow")
    assert workflow.observed["ready"] is True
    host.management.change_clock("freeze")
    host.ask("/a", "POST")
    wait_until(lambda: host.ask("/a").json()["status"] == "sleeping")
    live = found(api, "nap-live")
    api.delete(live)
    assert host.ask("/").status_code == 503
    assert found(api, "nap-workflow").observed["ready"] is False
    host.management.change_clock("advance", b'{"seconds": 7200}')
    assert host.management.instance(workflow.uid, "a")["status"] == "sleeping"
    api.create(live.form, "test", "nap-live-again", live.spec)
    host.management.change_clock("run-to-idle")
    assert host.ask("/a").json() == {"status": "complete", "output": {"edition": "first"}}


@pytest.mark.req("DW-06", "MW-01", "WB-08", "WV-09")
def test_everything_is_deleted_in_order_of_reference_and_nothing_stays(host: TestHost) -> None:
    api = host.api()
    workflow = found(api, "nap-workflow")
    host.ask("/a", "POST")
    wait_until(lambda: host.management.instance(workflow.uid, "a")["status"] == "sleeping")
    for name in ("nap", "nap-workflow", "nap-bundle", "nap-v1"):
        with pytest.raises(RequestRefused, match="409 dependency_conflict"):
            api.delete(found(api, name))
    for name in ("nap-live", "nap-v1", "nap-workflow", "nap-bundle", "nap"):
        api.delete(found(api, name))
        assert api.find("test", name) is None
    with pytest.raises(RequestRefused, match="404 not_found"):
        host.management.instances(workflow.uid)
    assert host.ask("/").status_code == 404
