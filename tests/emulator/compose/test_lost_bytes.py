"""Held bytes that are lost or damaged on the disk of a real host: refused, told of, shown, and mended by the same bytes."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from emulator.client import RequestRefused, Resource
from host.model.digest import sha256_hex
from tests.emulator.compose.hosts import TestHost, running_host, wait_until
from tests.emulator.compose.sites import Asset, Site, make_site
from tests.emulator.compose.workers import Workers

pytestmark = pytest.mark.usefixtures("workerd")

FILES = {"index.html": Asset(b"<p>page", "text/html"), "other": Asset(b"other")}
SOURCE = "export default { fetch() { return new Response('here'); }, scheduled() {} };"


@pytest.fixture
def host(tmp_path: Path) -> Iterator[TestHost]:
    with running_host(tmp_path / "h") as started:
        yield started


def file_of(host: TestHost, content: bytes) -> Path:
    """Where the host keeps these bytes."""
    files = (Path(host.ready.state_dir) / "artifacts" / "sha256").rglob("*")
    [found] = [path for path in files if path.is_file() and path.read_bytes() == content]
    return found


def damage(path: Path, how: str) -> None:
    match how:
        case "gone":
            path.unlink()
        case "cut":
            path.write_bytes(path.read_bytes()[:-1])
        case _:
            path.write_bytes(bytes(reversed(path.read_bytes())))


def is_ready(host: TestHost, *resources: Resource) -> set[object]:
    return {host.api().read(each.uid).observed["ready"] for each in resources}


@pytest.mark.req("WD-08", "WB-11", "WV-08", "SA-11", "WE-06")
@pytest.mark.parametrize("was_served", [False, True])
@pytest.mark.parametrize("how", ["gone", "cut", "altered"])
def test_a_damaged_asset_is_never_sent_is_told_of_once_and_mended_by_the_same_bytes(
    host: TestHost, how: str, was_served: bool
) -> None:
    site = make_site(host, "site", FILES).expose()
    worker, _, version, live = site.made
    if was_served:
        assert site.ask("/").body == b"<p>page"
    page = file_of(host, b"<p>page")
    damage(page, how)
    if was_served and how == "altered":
        os.utime(page, (0, 0))  # the file system tells changes of one second apart
    answer = site.ask("/")
    assert (answer.status, answer.body) in (
        (500, b"Internal Server Error\n"),
        (503, b"Held files of this Version are lost.\n"),
    )
    wait_until(lambda: is_ready(host, version, live, worker) == {False})
    assert site.endpoint is not None
    assert host.api().read(site.endpoint.uid).observed["activeDeploymentRouteReady"] is False
    wait_until(lambda: site.ask("/other").status == 503)
    told = [line for line in host.log.read_text().splitlines() if "an asset cannot be served" in line]
    assert len(told) == 1
    assert all(word in told[0] for word in ("site", version.uid, page.name))
    host.management.put_artifact(b"<p>page")
    wait_until(lambda: is_ready(host, version, live, worker) == {True})
    wait_until(lambda: site.ask("/").body == b"<p>page")


@pytest.mark.req("WD-08", "WB-11", "HA-80")
def test_damage_that_a_size_does_not_tell_is_remembered_over_a_kill(tmp_path: Path) -> None:
    with running_host(tmp_path / "h") as host:
        site = make_site(host, "site", FILES)
        damage(file_of(host, b"<p>page"), "altered")
        assert site.ask("/").status == 500
        wait_until(lambda: is_ready(host, site.made[2]) == {False})
        host.process.kill()
    with running_host(tmp_path / "h") as host:
        again = Site(host, site.name, site.worker, site.made)
        assert is_ready(host, site.made[2]) == {False}
        assert again.ask("/").status == 503
        [told] = [line for line in host.log.read_text().splitlines() if "1 Version has lost held bytes" in line]
        digest = sha256_hex(b"<p>page")
        assert f"(Worker 'site', Version {site.made[2].uid})" in told and told.endswith(f"sha256 {digest}")


@pytest.mark.req("WD-08", "WB-11", "WV-08", "WB-08")
def test_a_bundle_that_lost_a_file_takes_its_version_out_of_work_until_it_is_whole(tmp_path: Path) -> None:
    with running_host(tmp_path / "h") as host:
        workers = Workers(host)
        worker = workers.worker("app")
        version = workers.version(worker, "v1", SOURCE, ("fetch", "scheduled"))
        live = workers.deploy(worker, (version, 10000))
        assert host.ask("/").text == "here"
        module = file_of(host, SOURCE.encode())
        host.process.kill()
    module.unlink()
    with running_host(tmp_path / "h") as host:
        shown = host.api().read(version.uid)
        assert shown.observed == {"ready": False, "resolvedBindings": True}
        assert is_ready(host, live, worker) == {False}
        assert host.ask("/").status_code == 503
        refused = Workers(host).manage("POST", f"/v1/workers/{worker.uid}/scheduled", {"cron": "* * * * *"})
        assert (refused[0], refused[1]["error"]["code"]) == (409, "files_lost")
        with pytest.raises(RequestRefused, match="held bytes"):
            Workers(host).reweigh(host.api().read(live.uid), (version, 10000))
        module.write_bytes(SOURCE.encode())
        wait_until(lambda: is_ready(host, version, live, worker) == {True})
        assert host.api().read(version.uid).observed["bundleVerified"] is True
        wait_until(lambda: host.ask("/").text == "here")


@pytest.mark.req("WD-08", "WB-11")
def test_code_that_cannot_be_made_again_shows_while_the_host_runs(host: TestHost) -> None:
    workers = Workers(host)
    worker = workers.worker("app")
    version = workers.version(worker, "v1", SOURCE, ("fetch", "scheduled"))
    workers.deploy(worker, (version, 10000))
    file_of(host, SOURCE.encode()).unlink()
    (code,) = (path for path in (host.ready.state_dir / "code").iterdir() if path.name != "work")
    (code / "0").unlink()
    for pid in host.children():
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: host.ask("/").status_code in (500, 503))
    wait_until(lambda: is_ready(host, version, worker) == {False})
    host.management.put_artifact(SOURCE.encode())
    wait_until(lambda: host.ask("/").status_code == 200)
    assert is_ready(host, version, worker) == {True}
