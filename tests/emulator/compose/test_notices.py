"""What a whole host says when it kills the code of a Workflow or ends an instance by itself, on real workerd."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from emulator.client import DURABLE_WORKFLOW
from tests.emulator.compose.hosts import TestHost, running_host, wait_until
from tests.emulator.compose.workers import Workers, ref

pytestmark = pytest.mark.usefixtures("workerd")

SECRET = "word-of-honour"
SOURCE = """
export class Flow {
  constructor(env) { this.env = env; }
  async run({ instanceId }, step) {
    switch (instanceId) {
      case "spins": for (;;) {}
      case "hangs": return await new Promise(() => {});
      case "swells": {
        const kept = [];
        for (;;) {
          kept.push(Array.from({ length: 1e4 }, (_, n) => ({ n, kept: [n] })));
          if (kept.length % 4 === 0) await new Promise((resolve) => setTimeout(resolve));
        }
      }
      case "overlaps": step.do(this.env.KEY, () => new Promise(() => {})); return await step.sleep("more", 5);
      case "too many": for (let n = 0; n < 1025; n++) await step.sleep(this.env.KEY + n, 0);
    }
  }
}
export default {
  async fetch(request, { WF }) {
    const id = decodeURIComponent(new URL(request.url).pathname.slice(1));
    if (request.method === "POST") return Response.json((await WF.create({ id })).id);
    return Response.json(await (await WF.get(id)).status());
  },
};
"""
DIED = "the instance ends as run_threw: the third time at the same point of its history"
ON = "it goes on from its history in a new context"


@contextmanager
def flow_host(folder: Path, *limits: str) -> Iterator[TestHost]:
    """A host with the Worker `shop` and its Workflow."""
    with running_host(folder, *limits) as host:
        workers = Workers(host)
        worker = workers.worker("shop")
        spec = {"worker": ref(worker), "className": "Flow"}
        workflow = workers.api.create(DURABLE_WORKFLOW, "test", "flow", spec)
        bindings = [{"name": "WF", "resource": ref(workflow)}]
        version = workers.version(worker, "v1", SOURCE, secrets={"KEY": SECRET}, workflowBindings=bindings)
        workers.deploy(worker, (version, 10000))
        yield host


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestHost]:
    with flow_host(tmp_path_factory.mktemp("told") / "h", "--context-cpu-limit", "0.3") as host:
        yield host


def run_to_its_end(host: TestHost, instance: str) -> dict[str, Any]:
    """Its error."""

    def status() -> dict[str, Any]:
        return dict(host.ask(f"/{instance}").json())

    host.ask(f"/{instance}", "POST")
    wait_until(lambda: status()["status"] == "errored")
    return dict(status()["error"])


def told(host: TestHost, instance: str) -> list[str]:
    """The sentences about an instance: the same in the host's log and at `/v1/logs`, with all that they name."""
    api = host.api()
    worker, version = api.find("test", "shop"), api.find("test", "v1")
    assert worker is not None and version is not None
    lines = [each for each in Workers(host).logs() if each["instanceId"] == instance]
    sentences = []
    for line in lines:
        assert (line["level"], line["workerName"]) == ("error", "shop")
        assert (line["workerUid"], line["versionUid"]) == (worker.uid, version.uid)
        place = (
            f"Worker shop ({worker.uid}), Version {version.uid}, instance {instance!r}, context {line['contextId']}: "
        )
        text = line["message"].removeprefix("takohost: ")
        assert text.startswith(place) and text in host.log.read_text()
        sentences.append(text.removeprefix(place))
    assert len({line["contextId"] for line in lines}) == len(lines)
    assert SECRET not in str(lines) and SECRET not in host.log.read_text()
    return sentences


def assert_three_deaths(host: TestHost, instance: str, why: str) -> None:
    assert run_to_its_end(host, instance)["reason"] == "run_threw"
    sentences = told(host, instance)
    assert [each.startswith(why) for each in sentences] == [True] * 3, sentences
    assert [each.rpartition("; ")[2] for each in sentences] == [ON, ON, DIED]


@pytest.mark.req("DW-39")
def test_each_context_that_spun_is_told_and_the_end_after_the_third(host: TestHost) -> None:
    assert_three_deaths(host, "spins", "the code ran for 0.3 s of processor time without a pause (exit status -9)")


@pytest.mark.req("DW-39")
@pytest.mark.parametrize(
    ("limit", "instance", "why"),
    [
        (("--context-wall-limit", "1"), "hangs", "the code gave no sign for 1 s"),
        (("--context-memory", "32"), "swells", "the runner's process ended, as it does when memory runs out (exit "),
    ],
)
def test_each_context_that_hung_or_died_of_its_memory_is_told(
    tmp_path: Path, limit: tuple[str, str], instance: str, why: str
) -> None:
    with flow_host(tmp_path / "h", *limit) as alone:
        assert_three_deaths(alone, instance, why)


@pytest.mark.req("DW-31", "DW-33")
@pytest.mark.parametrize(
    ("instance", "reason", "words"),
    [
        ("overlaps", "step_definition_mismatch", "steps overlapped, were left unsettled or changed their kind"),
        ("too many", "step_limit_exceeded", "a history has at most 1024 step names"),
    ],
)
def test_an_end_by_a_rule_of_the_host_is_told_by_its_reason(
    host: TestHost, instance: str, reason: str, words: str
) -> None:
    assert run_to_its_end(host, instance)["reason"] == reason
    assert told(host, instance) == [f"the instance ends as {reason}: {words}"]
