"""A host as a process: what it says when ready, how it ends, what it leaves behind."""

import json
import socket
import ssl
import stat
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from emulator.client import DURABLE_WORKFLOW
from emulator.demo.errors import DemoFailed
from tests.emulator.compose.hosts import TestHost, is_gone, running_host, wait_until

pytestmark = pytest.mark.usefixtures("workerd")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestHost]:
    with running_host(tmp_path_factory.mktemp("host") / "h") as started:
        yield started


def get(host: TestHost, path: str) -> httpx.Response:
    context = ssl.create_default_context(cafile=host.ready.ca)
    return httpx.get(host.ready.api + path, verify=context, trust_env=False)


def test_the_ready_file_says_where_everything_is(host: TestHost) -> None:
    """P04"""
    document = json.loads(host.ready_file.read_text())
    assert set(document) == {
        "pid",
        "api",
        "ingress",
        "ingressTls",
        "management",
        "managementTokenFile",
        "ca",
        "stateDir",
        "storage",
    }
    assert stat.S_IMODE(Path(document["managementTokenFile"]).stat().st_mode) == 0o600
    assert stat.S_IMODE(Path(document["stateDir"]).stat().st_mode) == 0o700
    assert document["storage"].startswith("SQLite files in ")
    for origin in (document["api"], document["ingress"], document["ingressTls"], document["management"]):
        assert origin in host.log.read_text()


@pytest.mark.req("HA-20", "HA-21")
def test_discovery_answers_over_tls_to_whoever_trusts_the_authority(host: TestHost) -> None:
    answer = get(host, "/.well-known/takoform/v2")
    assert answer.status_code == 200
    assert answer.json()["baseUrl"] == f"{host.ready.api}/apis/forms.takoform.com/v2"
    assert "server" not in answer.headers
    assert str(host.ready.state_dir) not in answer.text


@pytest.mark.req("HA-24", "DW-43")
def test_support_answers_as_curl_would_ask(host: TestHost) -> None:
    answer = get(host, f"/apis/forms.takoform.com/v2/support?form={DURABLE_WORKFLOW}")
    assert answer.status_code == 200
    assert answer.json()["supported"] is True
    assert get(host, "/apis/forms.takoform.com/v2/support?form=http:x").status_code == 400


def test_a_client_that_does_not_trust_the_authority_refuses_the_host(host: TestHost) -> None:
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx.get(host.ready.api, trust_env=False)


def test_only_http_1_1_is_offered(host: TestHost) -> None:
    context = ssl.create_default_context(cafile=host.ready.ca)
    context.set_alpn_protocols(["h2", "http/1.1"])
    port = urlsplit(host.ready.api).port
    with (
        socket.create_connection(("127.0.0.1", port)) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        assert secure.selected_alpn_protocol() == "http/1.1"


def test_the_listeners_are_on_loopback_only(host: TestHost) -> None:
    for origin in (host.ready.api, host.ready.ingress, host.ready.ingress_tls, host.ready.management):
        port = urlsplit(origin).port
        assert _listening_addresses(port) in ({"127.0.0.1"}, set())


def _listening_addresses(port: int | None) -> set[str]:
    table = Path("/proc/net/tcp")
    if not table.exists() or port is None:
        return set()
    found = set()
    for line in table.read_text().splitlines()[1:]:
        local, _, state = line.split()[1:4]
        address, _, hexadecimal = local.partition(":")
        if state == "0A" and int(hexadecimal, 16) == port:
            found.add(socket.inet_ntoa(bytes.fromhex(address)[::-1]))
    return found


def test_without_a_worker_the_ingress_says_so(host: TestHost) -> None:
    answer = host.ask("/")
    assert (answer.status_code, "No Worker" in answer.text) == (404, True)


def test_a_second_host_on_the_directory_is_refused(host: TestHost) -> None:
    with pytest.raises(DemoFailed, match=f"in use by takohost process {host.ready.pid}"):
        TestHost(host.ready_file.parent / ".." / "second", "--state-dir", str(host.ready.state_dir))
    assert host.ask("/").status_code == 404


def test_a_signal_ends_it_in_order_without_children(tmp_path: Path) -> None:
    with running_host(tmp_path / "h") as host:
        children = host.children()
        assert len(children) >= 2
        assert host.process.stop() == 0
        assert all(map(is_gone, children))
        assert not host.ready_file.exists()


def test_a_killed_host_leaves_no_child_and_its_directory_starts_again(tmp_path: Path) -> None:
    """P08"""
    with running_host(tmp_path / "h") as host:
        children = host.children()
        host.process.kill()
        wait_until(lambda: all(map(is_gone, children)), 5.0)
    with running_host(tmp_path / "h") as again:
        assert again.ready.pid != host.ready.pid
        assert again.ready.ca.read_bytes() == host.ready.ca.read_bytes()


def test_a_killed_host_without_one_of_its_databases_does_not_start(tmp_path: Path) -> None:
    with running_host(tmp_path / "h") as host:
        host.process.kill()
    lost = tmp_path / "h" / "state" / "control.sqlite"
    lost.unlink()
    with pytest.raises(DemoFailed, match=rf"{lost} is missing"):
        TestHost(tmp_path / "h")
    assert not lost.exists()


def test_the_clock_stands_where_it_stood_after_a_kill(tmp_path: Path) -> None:
    with running_host(tmp_path / "h") as host:
        host.management.change_clock("freeze")
        moved = host.management.change_clock("advance", b'{"seconds": 86400}')
        host.process.kill()
    with running_host(tmp_path / "h") as again:
        shown = again.management.clock()
        assert (shown["mode"], shown["nowMs"]) == ("frozen", moved["nowMs"])
