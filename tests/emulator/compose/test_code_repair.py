"""Compiled code that is missing or damaged is made again of the held bundle: requests and instances go on."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.emulator.compose.hosts import TestHost, running_host, wait_until

pytestmark = [pytest.mark.usefixtures("workerd"), pytest.mark.req("WB-08", "WV-08", "DW-39")]

SOURCE = """
export class Flow { async run({ instanceId }, step) { return await step.do("a", () => ({ id: instanceId })); } }
export default { fetch() { return new Response("here"); } };
"""


@pytest.fixture
def host(tmp_path: Path) -> Iterator[TestHost]:
    with running_host(tmp_path / "h", "--runners", "1") as started:
        yield started


def code_of(host: TestHost) -> Path:
    (directory,) = (path for path in (host.ready.state_dir / "code").iterdir() if path.name != "work")
    return directory


def forget_what_was_read(host: TestHost) -> None:
    """Processes keep code that they have read: their successors read it anew."""
    for pid in host.children():
        os.kill(pid, signal.SIGKILL)


def ended(host: TestHost, workflow: str, name: str) -> dict[str, object]:
    wait_until(lambda: host.management.instance(workflow, name)["status"] in ("complete", "errored"))
    return host.management.instance(workflow, name)


@pytest.mark.parametrize("how", ["a module is altered", "the index is cut", "all is gone"])
def test_code_is_made_again_when_a_process_cannot_read_it(host: TestHost, how: str) -> None:
    workflow = host.deploy("app", SOURCE, "Flow")
    assert host.ask("/").text == "here"
    code = code_of(host)
    before = {path.name: path.read_bytes() for path in code.iterdir()}
    match how:
        case "a module is altered":
            (code / "0").write_bytes(b"export default { fetch() { return new Response('altered'); } };")
        case "the index is cut":
            (code / "index.json").write_bytes(before["index.json"][:-2])
        case _:
            shutil.rmtree(code)
    forget_what_was_read(host)
    host.management.create_instance(workflow, {"id": "one"})
    assert ended(host, workflow, "one")["output"] == {"id": "one"}
    assert host.ask("/").text == "here"
    assert {path.name: path.read_bytes() for path in code.iterdir()} == before
    assert "has been made again" in host.log.read_text()


def test_a_host_that_lost_all_compiled_code_starts_and_serves(tmp_path: Path) -> None:
    with running_host(tmp_path / "h") as host:
        workflow = host.deploy("app", SOURCE, "Flow")
        host.process.kill()
    shutil.rmtree(tmp_path / "h" / "state" / "code")
    with running_host(tmp_path / "h") as host:
        assert host.ask("/").text == "here"
        host.management.create_instance(workflow, {"id": "one"})
        assert ended(host, workflow, "one")["output"] == {"id": "one"}


def test_an_instance_outlives_code_that_cannot_be_made_again_for_a_while(host: TestHost) -> None:
    workflow = host.deploy("app", SOURCE, "Flow")
    held, aside = host.ready.state_dir / "artifacts" / "sha256", host.ready.state_dir / "aside"
    shutil.rmtree(code_of(host))
    held.rename(aside)
    forget_what_was_read(host)
    host.management.create_instance(workflow, {"id": "one"})
    wait_until(lambda: host.api().read(workflow).observed["ready"] is False)
    assert host.management.instance(workflow, "one")["status"] in ("queued", "running")
    aside.rename(held)
    shown = ended(host, workflow, "one")
    assert shown["output"] == {"id": "one"}, shown["error"]
