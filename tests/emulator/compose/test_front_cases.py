"""What other hosts' fronts got wrong, tried on a whole host over TLS: the rows A of the public cases."""

import json
import select
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from host.http.routes import ROOT
from tests.emulator.compose.hosts import TestHost, is_gone, running_host, wait_until

pytestmark = pytest.mark.usefixtures("workerd")

DISCOVERY = "/.well-known/takoform/v2"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestHost]:
    with running_host(tmp_path_factory.mktemp("front") / "h") as started:
        yield started


@contextmanager
def connection(host: TestHost) -> Iterator[ssl.SSLSocket]:
    context = ssl.create_default_context(cafile=host.ready.ca)
    with (
        socket.create_connection(("127.0.0.1", urlsplit(host.ready.api).port), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        yield secure


def everything(secure: ssl.SSLSocket) -> bytes:
    received = b""
    while piece := secure.recv(65536):
        received += piece
    return received


def one_answer(secure: ssl.SSLSocket) -> bytes:
    """An answer whose body ends like a discovery document."""
    received = b""
    while not received.endswith(b"}}"):
        received += secure.recv(65536)
    return received


def ask(host: TestHost, raw: bytes) -> list[tuple[int, dict[str, str], Any]]:
    """(status, headers, JSON body) of every answer to these bytes until the host closes."""
    with connection(host) as secure:
        secure.sendall(raw)
        received = everything(secure)
    answers = []
    while received:
        head, _, rest = received.partition(b"\r\n\r\n")
        lines = head.decode("ascii").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        length = int(headers["content-length"])
        answers.append((int(lines[0].split()[1]), headers, json.loads(rest[:length])))
        received = rest[length:]
    return answers


def refused(host: TestHost, raw: bytes) -> int:
    """The status of the only answer, which is a problem document and one line of log; the next connection is fine."""
    lines_before = len(host.log.read_text().splitlines())
    ((status, headers, problem),) = ask(host, raw)
    assert headers["content-type"] == "application/problem+json"
    assert headers["connection"] == "close"
    assert (problem["type"], problem["status"], problem["code"]) == ("about:blank", status, "invalid_request")
    wait_until(lambda: len(host.log.read_text().splitlines()) > lines_before)
    (line,) = host.log.read_text().splitlines()[lines_before:]
    assert f"refused a request with {status}" in line
    assert ask(host, f"GET {DISCOVERY} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())[0][0] == 200
    return status


def request(start: str, *fields: str, body: str = "") -> bytes:
    return "\r\n".join((start, *fields, "", body)).encode("latin-1")


@pytest.mark.req("HA-01")
def test_a01_oversized_headers_are_a_431(host: TestHost) -> None:
    assert refused(host, request("GET / HTTP/1.1", "Host: localhost", "X: " + "a" * 70_000)) == 431


def flood(host: TestHost, head: bytes, piece: bytes) -> bytes:
    """What the host says to a body of 100 MB that is sent until it says something."""
    with connection(host) as secure:
        secure.sendall(head)
        told = b""
        for _ in range(100_000_000 // len(piece)):
            told = said(secure)
            if told:
                break
            try:
                secure.sendall(piece)
            except OSError:
                break
        return told + everything(secure)


def said(secure: ssl.SSLSocket) -> bytes:
    """What has come by now. A readable socket may hold no more than a session ticket."""
    if not select.select([secure], [], [], 0)[0]:
        return b""
    patience_s = secure.gettimeout()
    secure.settimeout(0)
    try:
        return secure.recv(65536)
    except ssl.SSLWantReadError:
        return b""
    finally:
        secure.settimeout(patience_s)


def peak_kib(pid: int) -> int:
    """The most memory that the process has had."""
    (line,) = (each for each in Path(f"/proc/{pid}/status").read_text().splitlines() if each.startswith("VmHWM"))
    return int(line.split()[1])


@pytest.mark.req("HA-12", "HA-01")
@pytest.mark.parametrize("is_chunked", [False, True])
def test_l06_a_body_of_100_mb_is_answered_and_not_kept(host: TestHost, is_chunked: bool) -> None:
    fields = ("Host: localhost", "Content-Type: application/json", "Idempotency-Key: a-large-body-0001")
    length = "Transfer-Encoding: chunked" if is_chunked else "Content-Length: 100000000"
    data = b"0" * 65536
    piece = b"10000\r\n" + data + b"\r\n" if is_chunked else data
    before = peak_kib(host.ready.pid)
    answer = flood(host, request(f"POST {ROOT}/resources HTTP/1.1", *fields, length), piece)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 413 "), answer[:200]
    assert json.loads(body)["code"] == "request_too_large"
    assert peak_kib(host.ready.pid) - before < 16 * 1024


@pytest.mark.req("HA-01")
def test_a02_both_length_headers_are_refused_and_nothing_is_smuggled(host: TestHost) -> None:
    smuggled = json.dumps({"form": "https://a.b/", "space": "s", "name": "smuggled", "spec": {}})
    inner = request(
        f"POST {ROOT}/resources HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        "Idempotency-Key: smuggled-0123456789",
        f"Content-Length: {len(smuggled)}",
        body=smuggled,
    ).decode()
    fields = ("Host: localhost", "Content-Length: 4", "Transfer-Encoding: chunked")
    assert refused(host, request(f"POST {ROOT}/resources HTTP/1.1", *fields, body="0\r\n\r\n" + inner)) == 400


@pytest.mark.req("HA-11")
@pytest.mark.parametrize("method", ["CONNECT", "PoST", "post", "A" * 5000])
def test_a04_misspelt_methods_are_no_post(host: TestHost, method: str) -> None:
    assert refused(host, request(f"{method} {ROOT}/resources HTTP/1.1", "Host: localhost")) == 501
    assert refused(host, request(f"G ET {ROOT}/resources HTTP/1.1", "Host: localhost")) == 400


@pytest.mark.req("HA-11")
def test_a04_a_method_of_another_route_says_what_is_allowed(host: TestHost) -> None:
    raw = request(f"PATCH {ROOT}/resources HTTP/1.1", "Host: localhost", "Connection: close")
    ((status, headers, problem),) = ask(host, raw)
    assert (status, headers["allow"], problem["code"]) == (405, "GET, POST", "method_not_allowed")


@pytest.mark.req("HA-20", "HA-01")
@pytest.mark.parametrize("value", ["x/y?z=", "a@b", "", "a b", "localhost:1\r\nHost: localhost", "[::1"])
def test_a06_a_host_that_is_none_is_refused(host: TestHost, value: str) -> None:
    raw = request(f"GET {DISCOVERY} HTTP/1.1", f"Host: {value}", "Connection: close")
    ((status, _, problem),) = ask(host, raw)
    assert (status, problem["code"]) == (400, "invalid_request")


@pytest.mark.req("HA-20")
def test_a06_advertised_addresses_are_the_hosts_own(host: TestHost) -> None:
    ((_, _, document),) = ask(host, request(f"GET {DISCOVERY} HTTP/1.1", "Host: evil.example", "Connection: close"))
    assert document["baseUrl"] == host.ready.api + ROOT


@pytest.mark.req("HA-04", "HA-11")
@pytest.mark.parametrize("path", ["/resources/%00", "/resources?space=%00", "/resources/a%2Fb", "/resources/a%252Fb"])
def test_a08_a09_escapes_are_decoded_once_and_after_routing(host: TestHost, path: str) -> None:
    ((status, _, _),) = ask(host, request(f"GET {ROOT}{path} HTTP/1.1", "Host: localhost", "Connection: close"))
    assert status in (400, 404)


def test_a08_an_artifact_id_with_a_nul_is_refused(host: TestHost) -> None:
    headers = {"authorization": f"Bearer {host.ready.management_token()}"}
    url = f"{host.ready.management}/v1/artifacts/sha256/%00"
    assert httpx.put(url, content=b"x", headers=headers, trust_env=False).status_code == 400


@pytest.mark.req("HA-13")
def test_a10_broken_utf8_is_a_problem_not_a_failure(host: TestHost) -> None:
    for body in (b'{"a":"\xff"}', b'{"a":"\xe2\x82'):
        head = request(
            f"POST {ROOT}/resources HTTP/1.1",
            "Host: localhost",
            "Content-Type: application/json",
            "Idempotency-Key: broken-utf8-01234567",
            f"Content-Length: {len(body)}",
            "Connection: close",
        )
        ((status, _, problem),) = ask(host, head + body)
        assert (status, problem["code"]) == (400, "invalid_request")


def test_the_log_of_all_this_has_no_traceback(host: TestHost) -> None:
    assert "Traceback" not in host.log.read_text()


@pytest.mark.req("HA-14", "HA-53")
def test_a11_a_stop_refuses_the_new_and_finishes_the_running(tmp_path: Path) -> None:
    with running_host(tmp_path / "h") as host, connection(host) as idle, connection(host) as busy:
        idle.sendall(request(f"GET {DISCOVERY} HTTP/1.1", "Host: localhost"))
        assert one_answer(idle).startswith(b"HTTP/1.1 200")
        body = "{" + " " * 100
        busy.sendall(
            request(
                f"POST {ROOT}/resources HTTP/1.1",
                "Host: localhost",
                "Content-Type: application/json",
                "Idempotency-Key: stopping-0123456789",
                f"Content-Length: {len(body) + 1}",
                body=body,
            )
        )
        children = host.children()
        ended: list[int] = []
        stopping = threading.Thread(target=lambda: ended.append(host.process.stop()))
        stopping.start()
        assert everything(idle) == b""
        wait_until(lambda: is_refused(host))
        busy.sendall(b"}")
        assert everything(busy).startswith(b"HTTP/1.1 400")
        stopping.join(20)
        assert ended == [0]
        assert all(map(is_gone, children))
        assert "Traceback" not in host.log.read_text()


def is_refused(host: TestHost) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", urlsplit(host.ready.api).port), timeout=5):
            return False
    except ConnectionRefusedError:
        return True
