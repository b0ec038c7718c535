"""Fetched bundles, service bindings, logs and deletions of Workers, each through a real `takohost serve`."""

import asyncio
import hashlib
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from emulator.client import DURABLE_WORKFLOW, WORKER_BUNDLE, ClientError, OperationFailed, RequestRefused, Resource
from tests.emulator.artifacts.origins import TestOrigin, ok, origin
from tests.emulator.compose.hosts import JS, running_host, wait_until
from tests.emulator.compose.workers import Workers, first_line, ref
from tests.host.forms.test_deletion_orders import WHOLE, deletable

pytestmark = pytest.mark.usefixtures("workerd")

TOKEN = "token-of-the-origin"
SECRET = 'word "of"\nhonour'
MAIN = """
import { greeting } from "./lib/words.js";
import note from "./note.txt";
export default { fetch: () => new Response(greeting + note) };
"""


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    with running_host(tmp_path / "h") as host:
        yield Workers(host)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def publish(place: TestOrigin) -> dict[str, str]:
    """Three modules and their manifest at the origin; the `artifact` of a WorkerBundle."""
    modules = {
        "/main.js": (MAIN.encode(), JS),
        "/lib/words.js": (b'export const greeting = "fetched ";', JS),
        "/note.txt": ("caf\N{LATIN SMALL LETTER E WITH ACUTE}".encode(), "text/plain"),
    }
    files = []
    for path, (data, media_type) in modules.items():
        place.answers[path] = ok(data)
        files.append({"path": path[1:], "url": place.url(path), "sha256": sha256(data), "mediaType": media_type})
    manifest = json.dumps({"entrypoint": "main.js", "files": files}).encode()
    place.answers["/manifest.json"] = ok(manifest)
    return {"url": place.url("/manifest.json"), "sha256": sha256(manifest)}


def serve_bundle(workers: Workers, artifact: dict[str, str]) -> Resource:
    """The bundle of a Worker that answers by its code."""
    bundle = workers.api.create(WORKER_BUNDLE, "test", "fetched", {"artifact": artifact})
    worker = workers.worker("shop")
    spec = {"worker": ref(worker), "bundle": ref(bundle), "handlers": ["fetch"]}
    version = workers.api.create("https://edge.forms.takoform.com/forms/WorkerVersion/0.5.0/", "test", "v", spec)
    workers.deploy(worker, (version, 10000))
    return bundle


@pytest.mark.req("WB-05", "WB-06", "WB-08", "WB-10", "WB-11")
async def test_a_bundle_is_fetched_from_an_allowed_origin_and_outlives_it(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    folder = tmp_path / "h"

    def first(artifact: dict[str, str], allowed: str) -> None:
        with running_host(folder, "--allow-artifact-origin", allowed) as host:
            bundle = serve_bundle(Workers(host), artifact)
            assert host.ask("/").text == "fetched caf\N{LATIN SMALL LETTER E WITH ACUTE}"
            assert bundle.observed["manifestSha256"] == artifact["sha256"]
            assert [each["path"] for each in bundle.observed["files"]] == ["main.js", "lib/words.js", "note.txt"]
            assert (bundle.observed["fileCount"], "localhost" in json.dumps(bundle.observed)) == (3, False)
            host.process.kill()

    def again() -> None:
        with running_host(folder) as host:
            workers = Workers(host)
            assert host.ask("/").text == "fetched caf\N{LATIN SMALL LETTER E WITH ACUTE}"
            bundle = workers.api.find("test", "fetched")
            assert bundle is not None
            assert workers.api.update(bundle, bundle.spec).observed == bundle.observed
            log = host.log.read_text()
        assert "manifest.json" not in log and TOKEN not in log

    async with origin(tmp_path / "origin") as place:
        artifact = publish(place)
        allowed = f"https://localhost:{place.port}={token},ca={place.ca}"
        await asyncio.to_thread(first, artifact, allowed)
        heads = [each.decode().lower() for each in place.requests]
    assert [head.split()[1] for head in heads] == ["/manifest.json", "/main.js", "/lib/words.js", "/note.txt"]
    assert all("accept-encoding: identity\r\n" in head for head in heads)
    assert all(f"authorization: bearer {TOKEN}\r\n" in head for head in heads)
    await asyncio.to_thread(again)


@pytest.mark.req("WB-06", "WB-07")
async def test_a_private_origin_that_nobody_allowed_is_not_contacted(tmp_path: Path) -> None:
    def refused(artifact: dict[str, str]) -> None:
        with running_host(tmp_path / "h") as host, pytest.raises(OperationFailed) as told:
            Workers(host).api.create(WORKER_BUNDLE, "test", "fetched", {"artifact": artifact})
        assert told.value.effect in ("none", "partial")

    async with origin(tmp_path / "origin") as place:
        await asyncio.to_thread(refused, publish(place))
        assert place.connections == 0


@pytest.mark.req("WB-05", "WB-07")
async def test_one_wrong_byte_at_the_origin_fails_the_bundle_and_leaves_no_part_to_see(tmp_path: Path) -> None:
    def refused(artifact: dict[str, str], allowed: str) -> None:
        with running_host(tmp_path / "h", "--allow-artifact-origin", allowed) as host:
            workers = Workers(host)
            with pytest.raises(OperationFailed):
                workers.api.create(WORKER_BUNDLE, "test", "fetched", {"artifact": artifact})
            left = workers.api.find("test", "fetched")
            assert left is None or left.observed == {}

    async with origin(tmp_path / "origin") as place:
        artifact = publish(place)
        place.answers["/lib/words.js"] = ok(b'export const greeting = "Fetched ";')
        await asyncio.to_thread(refused, artifact, f"https://localhost:{place.port},ca={place.ca}")


FRONT = """
export class Ask {
  constructor(env) { this.env = env; }
  async run() { return { said: await (await this.env.BACK.fetch("http://any/context")).text() }; }
}
export default {
  async fetch(request, env) {
    try { return await env.BACK.fetch("https://elsewhere.example/direct", { method: "POST", body: request.body }); }
    catch (error) { return new Response(error.name, { status: 418 }); }
  },
};
"""
BACK = """
export default {
  async fetch(request) {
    const url = new URL(request.url);
    if (url.pathname === "/direct" && (await request.clone().text()) === "throw") throw new Error("of the callee");
    return new Response("EDITION " + url.host + url.pathname + " " + (await request.text()));
  },
};
"""


@pytest.mark.req("MW-20", "MW-21", "WD-03")
def test_a_service_binding_follows_the_called_workers_deployment(workers: Workers) -> None:
    back = workers.worker("back")
    one, two = (workers.version(back, name, BACK.replace("EDITION", name)) for name in ("one", "two"))
    front = workers.worker("front")
    workflow = workers.api.create(DURABLE_WORKFLOW, "test", "ask", {"worker": ref(front), "className": "Ask"})
    bound = workers.version(front, "f", FRONT, serviceBindings=[{"name": "BACK", "resource": ref(back)}])
    workers.deploy(front, (bound, 10000))

    def ask(body: bytes = b"hello") -> tuple[int, str]:
        headers = {"Host": f"front-{host_label(workers, 'front')}"}
        answer = workers.host.ingress.send("POST", "/", content=body, headers=headers)
        return answer.status_code, answer.text

    assert ask() == (418, "backend_unavailable")
    live = workers.deploy(back, (one, 10000))
    assert ask() == (200, "one elsewhere.example/direct hello")
    assert ask(b"throw") == (500, "Internal Server Error\n")
    live = workers.reweigh(live, (two, 10000))
    assert ask() == (200, "two elsewhere.example/direct hello")
    instance = workers.host.management.create_instance(workflow.uid, {})
    wait_until(lambda: workers.host.management.instance(workflow.uid, instance)["status"] == "complete")
    assert workers.host.management.instance(workflow.uid, instance)["output"] == {"said": "two any/context "}
    workers.api.delete(live)
    assert ask() == (418, "backend_unavailable")
    assert {(line["workerName"], first_line(line)) for line in workers.logs()} == {
        ("back", "uncaught in fetch: Error: of the callee")
    }


def host_label(workers: Workers, name: str) -> str:
    """The rest of a Worker's host name, as the page of names tells it."""
    page = workers.host.ingress.send("GET", "/", headers={"Host": "nobody.example"}).text
    return next(word for word in page.split() if f"//{name}-" in word).split(f"//{name}-")[1].split("/")[0]


TALKER = """
export class Talk {
  constructor(env) { this.env = env; }
  async run({ instanceId }) { console.info("context", instanceId, this.env.KEY); throw new Error("run " + this.env.KEY); }
}
export default {
  async fetch(request, env, ctx) {
    const half = env.KEY.length / 2;
    console.log("a", env.KEY, { deep: env.KEY });
    console.log(env.KEY.slice(0, half) + env.KEY.slice(half), JSON.stringify(env.KEY));
    console.warn(new Error("warned of " + env.KEY));
    ctx.waitUntil(Promise.reject(new Error("waited for " + env.KEY)));
    throw new Error("fetch " + env.KEY);
  },
  async scheduled(event, env) { throw new Error("scheduled " + env.KEY); },
  async queue(batch, env) { throw new Error("queue " + env.KEY); },
};
"""


@pytest.mark.req("MW-14", "MW-17", "MW-15", "HA-61")
def test_every_uncaught_error_is_one_line_with_its_place_and_without_a_secret(workers: Workers) -> None:
    worker = workers.worker("talker")
    workflow = workers.api.create(DURABLE_WORKFLOW, "test", "talk", {"worker": ref(worker), "className": "Talk"})
    handlers = ("fetch", "scheduled", "queue")
    version = workers.version(worker, "talker-v1", TALKER, handlers, secrets={"KEY": SECRET})
    workers.deploy(worker, (version, 10000))
    assert workers.host.ask("/").status_code == 500
    for handler, body in (
        ("scheduled", {"cron": "* * * * *"}),
        ("queue", {"queue": "q", "messages": [{"text": "x"}]}),
    ):
        assert workers.fire(worker, handler, body)["error"] == f"Error: {handler} [secret]"
    instance = workers.host.management.create_instance(workflow.uid, {"id": "i-1"})
    wait_until(lambda: workers.host.management.instance(workflow.uid, instance)["status"] == "errored")
    errors = [line for line in workers.logs() if line["level"] == "error"]
    assert sorted(map(first_line, errors)) == [
        "uncaught in fetch: Error: fetch [secret]",
        "uncaught in queue: Error: queue [secret]",
        "uncaught in run: Error: run [secret]",
        "uncaught in scheduled: Error: scheduled [secret]",
        "uncaught in waitUntil: Error: waited for [secret]",
    ]
    for line in workers.logs():
        assert (line["workerName"], line["workerUid"], line["versionUid"]) == ("talker", worker.uid, version.uid)
        is_of_context = line["message"].startswith(("context", "uncaught in run"))
        assert (line["instanceId"], line["contextId"] is not None) == ("i-1" if is_of_context else None, is_of_context)
    state = workers.host.ready_file.parent / "state"
    for text in (json.dumps(workers.logs()), workers.host.log.read_text(), (state / "workers.log").read_text()):
        assert "honour" not in text and "word" not in text


@pytest.mark.req("MW-01", "WB-08", "WV-09", "WV-18", "WD-07", "DW-06")
@pytest.mark.parametrize("seed", [1, 2])
def test_a_graph_is_deleted_in_any_order_that_the_rules_allow(workers: Workers, seed: int) -> None:
    """The same graph and model as in the tests of the Forms, with an instance that sleeps."""
    made = graph(workers)
    chance, state = random.Random(seed), WHOLE
    workers.host.management.create_instance(made["order"].uid, {"id": "i-1"})
    while state:
        for name in chance.sample(sorted(state), len(state)):
            try:
                workers.api.delete(made[name])
            except RequestRefused as refused:
                assert (name not in deletable(state), refused.code) == (True, "dependency_conflict"), (name, state)
            else:
                assert name in deletable(state), (name, state)
                state = state - {name}
    for name in WHOLE:
        with pytest.raises(ClientError):
            workers.api.read(made[name].uid)


ORDER = """
export class Order { async run(_, step) { await step.sleep("nap", 3600); } }
export default { fetch: () => new Response("shop") };
"""


def graph(workers: Workers) -> dict[str, Resource]:
    """The graph of `test_deletion_orders.WHOLE`, for real."""
    made: dict[str, Any] = {"shop": workers.worker("shop"), "till": workers.worker("till")}
    spec = {"worker": ref(made["shop"]), "className": "Order"}
    made["order"] = workers.api.create(DURABLE_WORKFLOW, "test", "order", spec)
    bound = [{"name": "ORDER", "resource": ref(made["order"])}]
    made["shop-a"] = workers.version(made["shop"], "shop-a", ORDER, workflowBindings=bound)
    made["shop-bundle"] = workers.api.read(made["shop-a"].spec["bundle"]["resourceUid"])
    plain = {key: made["shop-a"].spec[key] for key in ("worker", "bundle", "handlers")}
    made["shop-b"] = workers.api.create(made["shop-a"].form, "test", "shop-b", plain)
    made["shop-live"] = workers.deploy(made["shop"], (made["shop-a"], 10000))
    services = [{"name": "SHOP", "resource": ref(made["shop"])}]
    made["till-v"] = workers.version(made["till"], "till-v", ORDER, workflowBindings=bound, serviceBindings=services)
    made["till-bundle"] = workers.api.read(made["till-v"].spec["bundle"]["resourceUid"])
    made["till-live"] = workers.deploy(made["till"], (made["till-v"], 10000))
    return made
