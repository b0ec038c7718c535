"""Static assets through deletions, restarts and kills of a whole host."""

import itertools
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from emulator.client import (
    MODULE_WORKER,
    STATIC_ASSET_BUNDLE,
    WORKER_DEPLOYMENT,
    WORKER_VERSION,
    Connection,
    HostApi,
    OutcomeUnknown,
    Patience,
    RequestRefused,
    Resource,
)
from tests.emulator.compose.hosts import TestHost, running_host, wait_until
from tests.emulator.compose.sites import SPACE, Asset, Site, make_site, ref, upload_assets

pytestmark = pytest.mark.usefixtures("workerd")

FILES = {"index.html": Asset(b"<p>", "text/html"), "a/b.css": Asset(b"p {}", "text/css"), "empty": Asset(b"")}
LARGE = {"large": Asset(bytes(range(256)) * (16 * 4096), "application/octet-stream")}
HANDLER = "export default { fetch() { return new Response('handled', { status: 404 }); } };"
PARTS = ("site-assets", "site-v1", "site-live")
KILLS = [
    (0, "host.bundle.after_manifest"),
    (0, "host.bundle.after_file"),
    (0, "host.execute.after_backend"),
    (1, "host.version.after_verify"),
    (1, "host.execute.after_backend"),
    (2, "host.execute.after_backend"),
]
"""Which part of a site is being made, and where the host dies."""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestHost]:
    with running_host(tmp_path_factory.mktemp("lives") / "h") as started:
        yield started


def held(host: TestHost) -> list[str]:
    """Digests of every file that the host keeps."""
    folder = Path(host.ready.state_dir) / "artifacts" / "sha256"
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def withdraw_uploads(host: TestHost) -> None:
    """Take every upload back: what is left is held by Resources."""
    headers = {"authorization": f"Bearer {host.ready.management_token()}"}
    for digest in held(host):
        url = f"{host.ready.management}/v1/artifacts/sha256/{digest}?principal=local"
        httpx.delete(url, headers=headers, trust_env=False)


@pytest.mark.req("SA-08", "WV-18", "WV-09", "MW-01", "WD-07")
@pytest.mark.parametrize("order", list(itertools.permutations(("live", "version", "assets", "worker"))), ids="-".join)
def test_in_every_order_of_deletion_exactly_the_refusals_of_the_rules_are_given(
    host: TestHost, order: tuple[str, ...]
) -> None:
    site = make_site(host, "-".join(order), {"index.html": Asset("-".join(order).encode())})
    worker, bundle, version, live = site.made
    found = {"worker": worker, "assets": bundle, "version": version, "live": live}
    needs: dict[str, set[str]] = {
        "live": set(),
        "version": {"live"},
        "assets": {"version"},
        "worker": {"live", "version"},
    }
    api, gone = host.api(), set[str]()
    for name in order:
        if needs[name] <= gone:
            api.delete(found[name])
            gone.add(name)
        else:
            with pytest.raises(RequestRefused, match="409 dependency_conflict"):
                api.delete(found[name])
        answer = site.ask("/")
        assert (answer.status == 200) is ("live" not in gone)
    for name in ("live", "version", "assets", "worker"):
        if name not in gone:
            api.delete(found[name])


@pytest.mark.req("SA-07", "SA-08", "SA-11", "WB-08")
def test_files_survive_their_uploads_and_a_kill_and_go_with_their_last_holder(tmp_path: Path) -> None:
    with running_host(tmp_path / "h") as host:
        first = make_site(host, "first", FILES, HANDLER, runs_worker_first=True)
        second = make_site(host, "second", {"index.html": FILES["index.html"]}, is_single_page=True)
        withdraw_uploads(host)
        observed = first.made[1].observed
        host.process.kill()
    with running_host(tmp_path / "h") as host:
        again = [Site(host, site.name, site.worker, site.made) for site in (first, second)]
        assert [site.ask("/").body for site in again] == [b"<p>", b"<p>"]
        assert again[0].ask("/a/b.css").headers["content-type"] == "text/css"
        assert again[0].ask("/none").body == b"handled"
        api = host.api()
        assert api.read(first.made[1].uid).observed == observed
        for resource in reversed(first.made):
            api.delete(resource)
        assert again[1].ask("/any").body == b"<p>", "the file of another holder stays"
        for resource in reversed(second.made):
            api.delete(resource)
        assert held(host) == []


@pytest.mark.req("WD-07", "WV-09")
def test_the_end_of_a_deployment_cuts_a_file_that_is_being_sent(host: TestHost) -> None:
    site = make_site(host, "cut", LARGE)
    with closing(paused(site, "/large")) as reader:
        host.api().delete(site.made[-1])
        received = 0
        while piece := reader.recv(1 << 20):
            received += len(piece)
        assert received < len(LARGE["large"].content)
    assert site.ask("/large").status == 503


@pytest.mark.req("WV-15")
def test_slow_readers_of_large_files_cost_no_memory_for_them(host: TestHost) -> None:
    site = make_site(host, "slow", LARGE)
    assert site.ask("/large").status == 200
    before = gateway_memory(host)
    readers = [paused(site, "/large") for _ in range(24)]
    grown = gateway_memory(host) - before
    for reader in readers:
        reader.close()
    assert grown < 128 * 1024 * 1024, "24 readers of 16 MiB are 384 MiB"


def paused(site: Site, target: str) -> socket.socket:
    """A connection with the start of an answer read and the rest left to wait."""
    connection = socket.create_connection(("127.0.0.1", urlsplit(site.host.ready.ingress).port or 0), timeout=20)
    connection.sendall(f"GET {target} HTTP/1.1\r\nHost: {site.hostname}\r\nConnection: close\r\n\r\n".encode())
    assert connection.recv(12) == b"HTTP/1.1 200"
    return connection


def gateway_memory(host: TestHost) -> int:
    return sum(int(each["residentBytes"]) for each in host.management.processes() if each["role"] == "gateway")


@pytest.mark.req("WV-16", "WD-04")
def test_the_successor_of_a_killed_gateway_serves_the_same_files(host: TestHost) -> None:
    site = make_site(host, "successor", FILES)
    assert site.ask("/").body == b"<p>"
    (gateway,) = (each["pid"] for each in host.management.processes() if each["role"] == "gateway")
    os.kill(gateway, signal.SIGKILL)
    assert site.ask("/").body == b"<p>"


@pytest.mark.req("HA-53", "HA-80", "SA-05", "SA-11", "WV-08", "WD-04")
@pytest.mark.parametrize(("number", "point"), KILLS)
def test_a_kill_while_a_site_is_made_leaves_one_that_is_finished(tmp_path: Path, number: int, point: str) -> None:
    with running_host(tmp_path / "h") as host:
        worker = host.api().create(MODULE_WORKER, SPACE, "site", {})
        artifact = upload_assets(FILES, host.management)
        parts = make_parts(host.api(), worker, artifact, number)
        arm(host, point)
        with pytest.raises(OutcomeUnknown):
            make_parts(impatient(host), worker, artifact, number + 1)
        wait_until(lambda: not host.process.is_alive)
    with running_host(tmp_path / "h") as host:
        api = host.api()
        wait_until(lambda: is_idle(api, PARTS[number]))
        made = make_parts(api, worker, artifact)
        assert [part.uid for part in made[:number]] == [part.uid for part in parts]
        site = Site(host, "site", worker)
        assert (site.ask("/").body, site.ask("/any/thing").body, site.ask("/a/b.css").body) == (b"<p>", b"<p>", b"p {}")


def arm(host: TestHost, point: str) -> None:
    """Have the host die at its next passing of the point."""
    headers = {"authorization": f"Bearer {host.ready.management_token()}"}
    body = {"name": point, "nth": 1, "action": "kill"}
    answer = httpx.post(f"{host.ready.management}/v1/faults", json=body, headers=headers, trust_env=False)
    assert answer.status_code < 300, answer.text


def impatient(host: TestHost) -> HostApi:
    connection = Connection(host.ready.api, ca=host.ready.ca)
    return HostApi(connection, Patience(0.5, time.monotonic, time.sleep))


def is_idle(api: HostApi, name: str) -> bool:
    found = api.find(SPACE, name)
    assert found is not None, "it was accepted before the kill"
    return found.phase == "idle"


def make_parts(api: HostApi, worker: Resource, artifact: dict[str, str], most: int = 3) -> list[Resource]:
    """Bundle, Version and Deployment of a single page, in this order and as far as told; what is there is taken."""
    made: list[Resource] = []
    for number, name in enumerate(PARTS[:most]):
        spec: dict[str, Any]
        match number:
            case 0:
                form, spec = STATIC_ASSET_BUNDLE, {"artifact": artifact}
            case 1:
                assets = {
                    "bundle": ref(made[0]),
                    "runWorkerFirst": False,
                    "notFoundHandling": "single_page_application",
                }
                form, spec = WORKER_VERSION, {"worker": ref(worker), "handlers": [], "assets": assets}
            case _:
                weights = [{"workerVersion": ref(made[1]), "weight": 10000}]
                form, spec = WORKER_DEPLOYMENT, {"worker": ref(worker), "versions": weights}
        made.append(api.find(SPACE, name) or api.create(form, SPACE, name, spec))
    return made
