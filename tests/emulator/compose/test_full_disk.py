"""A host whose disk has no room: it says so, loses nothing, ends nothing, and goes on by itself once there is room.

A limit on the size of files stands for the full disk: to SQLite and to us a write fails just so.
"""

import hashlib
import os
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from emulator.client import MODULE_WORKER
from tests.emulator.compose.hosts import TestHost, running_host, wait_until

pytestmark = [
    pytest.mark.usefixtures("workerd"),
    pytest.mark.skipif(sys.platform != "linux", reason="the limits of another process can be set on Linux alone"),
]
LIMIT_BYTES = 64 * 1024
"""More than the host's own log has, less than the logs of both databases."""
SOURCE = """
export class Work {
  async run(event, step) {
    const first = await step.do("slow", () => new Promise((done) => setTimeout(() => done({ n: 1 }), 700)));
    await step.sleep("nap", 1);
    const second = await step.do("again", () => ({ n: first.n + 1 }));
    return { done: second.n };
  }
}
export default { fetch: () => new Response("ok") };
"""


@contextmanager
def no_room(host: TestHost, largest_bytes: int = LIMIT_BYTES) -> Iterator[None]:
    """No file of the host can grow beyond so much."""
    soft, hard = resource.prlimit(host.ready.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(host.ready.pid, resource.RLIMIT_FSIZE, (largest_bytes, hard))
    try:
        yield
    finally:
        with suppress(ProcessLookupError):  # it may have ended meanwhile
            resource.prlimit(host.ready.pid, resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def host(tmp_path: Path) -> Iterator[TestHost]:
    with running_host(tmp_path / "h") as running:
        yield running


def deployed(host: TestHost) -> str:
    """A Workflow; what was made for it fills the databases' logs beyond the limit."""
    workflow = host.deploy("work", SOURCE, "Work")
    for name in ("control", "emulator"):
        assert (host.ready.state_dir / f"{name}.sqlite-wal").stat().st_size > LIMIT_BYTES
    return workflow


def send(host: TestHost, method: str, path: str, content: bytes = b"") -> tuple[int, dict[str, Any]]:
    answer = host.management_connection.send(method, path, content=content)
    return answer.status_code, answer.json()


def create_worker(host: TestHost, name: str) -> tuple[int, dict[str, Any]]:
    """Always with the same key."""
    url = host.api().discovery.base_url + "/resources"
    headers = {"Idempotency-Key": "the-key-of-one-intent", "Content-Type": "application/json"}
    body = f'{{"form": "{MODULE_WORKER}", "space": "test", "name": "{name}", "spec": {{}}}}'
    answer = host.api_connection.send("POST", url, content=body.encode(), headers=headers)
    if answer.status_code == 503:
        assert answer.headers["retry-after"]
    return answer.status_code, answer.json()


def log_of(host: TestHost) -> str:
    return host.log.read_text()


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.req("HA-13", "HA-14", "HA-51", "WB-07")
def test_mutations_and_uploads_are_refused_without_room_and_done_when_there_is_some(host: TestHost) -> None:
    workflow = deployed(host)
    artifacts = host.ready.state_dir / "artifacts"
    before = files_below(artifacts)
    large, small = b"x" * (4 * LIMIT_BYTES), b"small"
    uploads = [(f"/v1/artifacts/sha256/{hashlib.sha256(each).hexdigest()}", each) for each in (large, small)]
    instances = f"/v1/workflows/{workflow}/instances"
    with no_room(host):
        for _ in range(3):
            status, refused = create_worker(host, "later")
            assert (status, refused["code"]) == (503, "temporarily_unavailable")
            assert refused["detail"] == (
                "the host's disk is full or fails: send the same request with the same key once there is room"
            )
        for path, content in uploads:
            assert send(host, "PUT", path, content) == (
                503,
                {
                    "error": {
                        "code": "no_room",
                        "message": "the host's disk is full or fails: try again once there is room",
                    }
                },
            )
        assert send(host, "POST", instances, b'{"id": "a"}')[0] == 503
        assert files_below(artifacts) == before
        assert host.api().find("test", "later") is None
        assert host.management.instances(workflow) == []
        assert host.ask("/").text == "ok"
    assert create_worker(host, "later")[0] in (200, 202)
    for path, content in uploads:
        assert send(host, "PUT", path, content)[0] == 200
    assert send(host, "POST", instances, b'{"id": "a"}') == (200, {"id": "a"})
    wait_until(lambda: host.management.instance(workflow, "a")["status"] == "complete")
    lines = log_of(host).splitlines()
    assert len([line for line in lines if "temporarily_unavailable" in line]) == 3
    assert "Traceback" not in "".join(lines)


@pytest.mark.req("DW-39")
def test_instances_rest_without_room_and_none_ends_for_it(host: TestHost) -> None:
    workflow = deployed(host)
    for name in ("a", "b"):
        host.management.create_instance(workflow, {"id": name})
    wait_until(lambda: all(len(each["contexts"]) == 1 for each in shown(host, workflow)))
    with no_room(host):
        wait_until(lambda: "no context is started for a while" in log_of(host))
        assert {each["status"] for each in shown(host, workflow)} <= {"queued", "running", "sleeping"}
    wait_until(lambda: all(each["status"] == "complete" for each in shown(host, workflow)))
    assert [each["output"] for each in shown(host, workflow)] == [{"done": 2}, {"done": 2}]
    assert all(context["stop"] is not None for each in shown(host, workflow) for context in each["contexts"])
    assert "Traceback" not in log_of(host)


def shown(host: TestHost, workflow: str) -> list[dict[str, Any]]:
    return [host.management.instance(workflow, name) for name in ("a", "b")]


@pytest.mark.req("DW-39", "HA-80")
def test_a_host_without_room_ends_in_order_and_the_next_one_goes_on(tmp_path: Path) -> None:
    with running_host(tmp_path / "h") as host:
        workflow = deployed(host)
        for name in ("a", "b"):
            host.management.create_instance(workflow, {"id": name})
        wait_until(lambda: all(len(each["contexts"]) == 1 for each in shown(host, workflow)))
        with no_room(host):
            wait_until(lambda: "no context is started for a while" in log_of(host))
            os.kill(host.ready.pid, signal.SIGTERM)
            assert host.process.wait_ended(20.0) == 0
        assert "Traceback" not in log_of(host)
    with running_host(tmp_path / "h") as again:
        wait_until(lambda: all(each["status"] == "complete" for each in shown(again, workflow)))


def test_the_clock_stays_as_it_is_without_room_to_keep_a_change(host: TestHost) -> None:
    with no_room(host, 1):
        before = files_below(host.ready.state_dir)
        for change, body in (("freeze", b""), ("advance", b'{"seconds": 60}')):
            status, refused = send(host, "POST", f"/v1/clock/{change}", body)
            assert (status, refused["error"]["code"]) == (503, "no_room")
        assert host.management.clock()["mode"] == "system"
        assert files_below(host.ready.state_dir) == before
    assert host.management.change_clock("freeze")["mode"] == "frozen"
