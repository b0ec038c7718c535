"""When a Version is served by a process of its own, and when it is free again, through a real `takohost serve`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.emulator.compose.hosts import running_host, wait_until
from tests.emulator.compose.test_workers_on_serve import host_label
from tests.emulator.compose.workers import Workers

pytestmark = pytest.mark.usefixtures("workerd")

SPINS = """
export default {
  fetch(request) { if (request.url.endsWith("/spin")) for (;;); return new Response("fine"); },
  scheduled() { for (;;); },
};
"""
FOR_GOOD = "it is now served by a process of its own until it is deployed anew"
FOR_A_MINUTE = "it is now served by a process of its own for a minute"


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    with running_host(tmp_path / "h") as host:
        yield Workers(host)


def sentences(workers: Workers) -> list[str]:
    """What the logs say of Versions that were set apart, the end of each line."""
    lines = [str(line["message"]) for line in workers.logs()]
    return [line.rpartition("; ")[2] for line in lines if line.startswith("takohost: Worker bad, Version ")]


@pytest.mark.req("MW-14", "MW-17", "WD-04", "HA-35")
def test_a_put_of_equal_weights_sets_a_version_free_and_nothing_else_does(workers: Workers) -> None:
    worker = workers.worker("bad")
    version = workers.version(worker, "v", SPINS, ("fetch", "scheduled"))
    live = workers.deploy(worker, (version, 10000))
    label = f"bad-{host_label(workers, 'bad')}"

    def spin() -> str:
        before = len(sentences(workers))
        fired = workers.fire(worker, "scheduled", {"cron": "* * * * *"})
        assert (fired["outcome"], fired["error"]) == ("failed", "the process that ran it ended")
        wait_until(lambda: len(sentences(workers)) > before)
        answer = workers.host.ingress.send("GET", "/", headers={"Host": label})
        assert (answer.status_code, answer.text) == (200, "fine")
        return sentences(workers)[-1]

    assert [spin(), spin(), spin()] == [FOR_A_MINUTE, FOR_A_MINUTE, FOR_GOOD]
    workers.serve("other", SPINS, ("fetch", "scheduled"))
    assert spin() == FOR_GOOD
    live = workers.reweigh(live, (version, 10000))
    assert spin() == FOR_A_MINUTE
