"""Endpoints of a real host over https: the address, what it leads to, and what is left of it after a kill."""

import json
import os
import re
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from emulator.client import WORKER_DEPLOYMENT, WORKER_ENDPOINT, Connection, HostUnreachable, RequestRefused, Resource
from tests.emulator.compose.hosts import TestHost, all_to, running_host, wait_until
from tests.emulator.compose.workers import Workers

pytestmark = pytest.mark.usefixtures("workerd")

COUNTING = """
let n = 0;
export default { async fetch(request) {
  return new Response(["SAYS", ++n, request.url, request.headers.get("host"), await request.text()].join(" "));
} };
"""
LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
KEY = "key-of-the-endpoint"


@pytest.fixture
def host(tmp_path: Path) -> Iterator[TestHost]:
    with running_host(tmp_path / "h") as started:
        yield started


def source(word: str) -> str:
    return COUNTING.replace("SAYS", word)


def made(host: TestHost, worker: Resource, name: str = "front") -> Resource:
    spec = {"worker": {"resourceUid": worker.uid}}
    return host.api().create(WORKER_ENDPOINT, "test", name, spec)


def get(host: TestHost, endpoint: Resource, path: str = "", method: str = "GET") -> httpx.Response:
    """A request to the endpoint's own url over TLS."""
    connection = host.at(endpoint.output["url"].rstrip("/"))
    try:
        return connection.send(method, endpoint.output["url"] + path)
    finally:
        connection.close()


class RawApi:
    """Single requests with a given key, whatever becomes of the host meanwhile."""

    def __init__(self, host: TestHost) -> None:
        self._connection = Connection(host.ready.api, ca=host.ready.ca)
        self._base = host.api().discovery.base_url

    def send(self, method: str, route: str, body: object = None, **headers: str) -> dict[str, Any]:
        """The body of the answer, `{}` when the host died instead."""
        content = None if body is None else json.dumps(body).encode()
        sent = {"Idempotency-Key": KEY, **{name.replace("_", "-"): value for name, value in headers.items()}}
        if content is not None:
            sent["Content-Type"] = "application/json"
        try:
            return dict(self._connection.send(method, self._base + route, content=content, headers=sent).json())
        except HostUnreachable:
            return {}

    def create(self, worker: Resource, name: str = "front") -> dict[str, Any]:
        spec = {"worker": {"resourceUid": worker.uid}}
        return self.send("POST", "/resources", {"form": WORKER_ENDPOINT, "space": "test", "name": name, "spec": spec})

    def close(self) -> None:
        self._connection.close()


def settled(host: TestHost, operation: dict[str, Any]) -> str:
    """Follow an Operation to its success; the uid."""
    wait_until(lambda: host.api().operation(operation["id"]).status == "succeeded")
    return str(operation["resourceUid"])


@pytest.mark.req("WE-03", "WE-04", "WE-09", "WE-10", "MW-14")
def test_the_address_is_https_without_a_port_and_reaches_the_worker(host: TestHost) -> None:
    """subtle-points, Host API 5"""
    worker, _ = host.serve("My_Shop", source("hello"))
    endpoint = made(host, worker, "Front.Door")
    hostname = endpoint.output["hostname"]
    assert endpoint.output == {"hostname": hostname, "url": f"https://{hostname}/"}
    assert re.fullmatch(rf"({LABEL}\.)+{LABEL}", hostname) and len(hostname) <= 253
    assert hostname.endswith(".workers.localhost") and hostname.count(".") == 2
    assert endpoint.observed == {"tlsReady": True, "activeDeploymentRouteReady": True}
    first = get(host, endpoint, "a?b=c", "POST")
    assert first.status_code == 200
    assert first.text.split(" ") == ["hello", "1", f"https://{hostname}/a?b=c", hostname, ""], "nobody called it before"
    plain = host.ingress.send("GET", "/", headers={"Host": hostname})
    assert plain.text.startswith(f"hello 2 http://{hostname}/")


@pytest.mark.req("WE-04")
def test_the_port_stands_in_the_ready_file_and_in_management(host: TestHost) -> None:
    listeners = host.management.listeners()
    assert listeners["ingressTls"] == host.ready.ingress_tls
    assert (urlsplit(host.ready.ingress_tls).port or 0) > 0
    assert set(listeners) == {"api", "ingress", "ingressTls", "management"}


@pytest.mark.req("MW-16")
def test_app_code_reaches_the_tls_ingress_as_little_as_any_listener_of_the_host(host: TestHost) -> None:
    fetching = """export default { async fetch(request) {
      const port = new URL(request.url).pathname.slice(1);
      return new Response(await fetch(`https://127.0.0.1:${port}/`).then(() => "reached", (error) => error.message));
    } };"""
    host.serve("shop", fetching)
    port = urlsplit(host.ready.ingress_tls).port
    assert "own listeners are never reachable" in host.ask(f"/{port}").text
    assert "own listeners" not in host.ask("/1").text


@pytest.mark.req("WE-05", "WE-13", "WE-10")
def test_a_killed_host_serves_the_same_uid_at_the_same_address_on_another_port(tmp_path: Path) -> None:
    """subtle-points, Host API 5"""
    with running_host(tmp_path / "h") as host:
        worker, _ = host.serve("shop", source("hello"))
        before = made(host, worker)
        assert get(host, before).text.startswith("hello 1 ")
        port = urlsplit(host.ready.ingress_tls).port
        host.process.kill()
    with running_host(tmp_path / "h") as host:
        assert urlsplit(host.ready.ingress_tls).port != port
        after = host.api().read(before.uid)
        assert (after.output, after.observed, after.generation) == (before.output, before.observed, 1)
        assert get(host, after).text.startswith(f"hello 1 {before.output['url']}")


@pytest.mark.req("WE-10", "WE-05", "WE-06", "WE-07", "WE-14", "WD-07")
def test_switches_show_at_the_address_and_a_deletion_takes_it_alone(host: TestHost) -> None:
    api = host.api()
    worker, deployment = host.serve("shop", source("old"))
    endpoint = made(host, worker)
    silent = host.version(worker, "silent", "export default {};", ())
    with pytest.raises(RequestRefused, match="dependency_conflict"):
        api.update(deployment, all_to(worker, silent))
    deployment = api.update(deployment, all_to(worker, host.version(worker, "new", source("new"))))
    assert get(host, endpoint).text.startswith("new 1 ")

    api.delete(deployment)
    found = api.read(endpoint.uid)
    assert found.observed == {"tlsReady": True, "activeDeploymentRouteReady": False}
    assert found.output == endpoint.output
    assert get(host, endpoint).status_code == 503
    with pytest.raises(RequestRefused, match="dependency_conflict"):
        api.delete(worker)

    version = api.find("test", "new")
    assert version is not None
    api.create(WORKER_DEPLOYMENT, "test", "again", all_to(worker, version))
    assert api.read(endpoint.uid).observed == {"tlsReady": True, "activeDeploymentRouteReady": True}
    assert get(host, endpoint).text.startswith("new ")

    api.delete(api.read(endpoint.uid))
    unknown = get(host, endpoint)
    assert (unknown.status_code, "No Worker answers at " in unknown.text) == (404, True)
    assert host.ask("/").text.startswith("new "), "the Worker's own name stays"
    again = made(host, worker, "next")
    assert again.output["hostname"] != endpoint.output["hostname"]
    Workers(host).worker("idle")
    page = get(host, endpoint)
    assert page.status_code == 404
    marked = {line.split()[0] for line in page.text.splitlines() if line.endswith("/  (no Deployment)")}
    assert marked == {"idle"}


@pytest.mark.req("WE-08", "WE-12", "WE-13", "HA-81")
@pytest.mark.parametrize(
    "point",
    [
        "host.accept.after_commit",
        pytest.param("host.execute.after_take", marks=pytest.mark.long),
        "host.endpoint.after_attach",
        pytest.param("host.execute.after_backend", marks=pytest.mark.long),
        pytest.param("host.execute.after_settle", marks=pytest.mark.long),
    ],
)
def test_a_kill_on_the_way_to_an_endpoint_ends_with_one_at_one_address(tmp_path: Path, point: str) -> None:
    """subtle-points, Host API 10"""
    with running_host(tmp_path / "h") as host:
        worker, _ = host.serve("shop", source("hello"))
        host.management.arm_fault(point)
        raw = RawApi(host)
        assert raw.create(worker) == {}
        raw.close()
        assert host.process.wait_killed(10)
    with running_host(tmp_path / "h") as host:
        found = host.api().find("test", "front")
        assert found is not None
        with pytest.raises(RequestRefused, match="409 dependency_conflict"):
            made(host, worker, "second")
        raw = RawApi(host)
        uid = settled(host, raw.create(worker))
        raw.close()
        endpoint = host.api().read(uid)
        assert (uid, endpoint.output) == (found.uid, found.output)
        assert endpoint.observed == {"tlsReady": True, "activeDeploymentRouteReady": True}
        assert get(host, endpoint).text.startswith("hello 1 ")


@pytest.mark.req("WE-14", "WE-12", "HA-81")
@pytest.mark.parametrize(
    "point",
    [
        pytest.param("host.accept.after_commit", marks=pytest.mark.long),
        pytest.param("host.execute.after_take", marks=pytest.mark.long),
        "host.execute.after_backend",
    ],
)
def test_a_kill_on_the_way_to_the_end_of_an_endpoint_ends_without_its_route(tmp_path: Path, point: str) -> None:
    with running_host(tmp_path / "h") as host:
        worker, _ = host.serve("shop", source("hello"))
        endpoint = made(host, worker)
        host.management.arm_fault(point)
        raw = RawApi(host)
        route = f"/resources/{endpoint.uid}"
        assert raw.send("DELETE", route, Takoform_Expected_Generation="1") == {}
        raw.close()
        assert host.process.wait_killed(10)
    with running_host(tmp_path / "h") as host:
        raw = RawApi(host)
        settled(host, raw.send("DELETE", route, Takoform_Expected_Generation="1"))
        raw.close()
        assert get(host, endpoint).status_code == 404
        assert host.ask("/").text.startswith("hello 1 ")


@pytest.mark.req("WE-11", "WE-12")
def test_a_put_mends_a_lost_route_at_the_same_address(tmp_path: Path) -> None:
    with running_host(tmp_path / "h") as host:
        worker, _ = host.serve("shop", source("hello"))
        endpoint = made(host, worker)
        host.process.kill()
    rows = sqlite3.connect(tmp_path / "h" / "state" / "emulator.sqlite")
    rows.execute("DELETE FROM catalog_endpoints")
    rows.commit()
    rows.close()
    with running_host(tmp_path / "h") as host:
        found = host.api().read(endpoint.uid)
        assert get(host, found).status_code == 404
        mended = host.api().update(found, {"worker": {"resourceUid": worker.uid}})
        assert (mended.output, mended.generation) == (endpoint.output, 2)
        assert get(host, mended).text.startswith("hello 1 ")


@pytest.mark.req("WE-13", "WE-12")
def test_the_address_outlives_its_gateway(host: TestHost) -> None:
    worker, _ = host.serve("shop", source("hello"))
    endpoint = made(host, worker)
    (gateway,) = [item["pid"] for item in host.management.processes() if item["role"] == "gateway"]

    os.kill(gateway, signal.SIGKILL)
    wait_until(lambda: gateway not in host.children())
    assert get(host, endpoint).text.startswith("hello 1 ")
    again = host.api().update(endpoint, {"worker": {"resourceUid": worker.uid}})
    assert again.output == endpoint.output
