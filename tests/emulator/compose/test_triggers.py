"""`scheduled` and `queue` handlers fired by hand through the management listener of a real host."""

import base64
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from emulator.client import RequestRefused
from tests.emulator.compose.hosts import running_host, wait_until
from tests.emulator.compose.test_lifecycle import found
from tests.emulator.compose.workers import Workers, first_line

pytestmark = pytest.mark.usefixtures("workerd")

BOTH = ("scheduled", "queue")
SOURCE = """
const hang = () => new Promise((go) => {
  console.log("hanging");
  setTimeout(go, 600000);
});
export default {
  async scheduled(event, env) {
    if (event.cron === "1 1 1 1 1") throw new Error("no " + env.WORD);
    if (event.cron === "2 2 2 2 2") await hang();
    console.log("tick", JSON.stringify(event), Date.now());
  },
  async queue(batch) {
    const text = (message) => new TextDecoder().decode(message.body);
    for (const message of batch.messages) {
      if (text(message) === "acknowledge") await batch.acknowledge(message.id);
      if (text(message) === "retry") await batch.retry(message.id, 60);
      if (text(message) === "later") await batch.retry(message.id);
      if (text(message) === "twice") {
        await batch.acknowledge(message.id);
        console.log(await batch.retry(message.id).catch((e) => e.name), await batch.acknowledge("?").catch((e) => e.name));
      }
      if (text(message) === "hang") await hang();
      if (text(message) === "throw") throw new Error("poison");
    }
  },
};
"""


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    with running_host(tmp_path / "h") as host:
        yield Workers(host)


def fates(answer: dict[str, Any]) -> list[tuple[object, ...]]:
    return [(each["settlement"], each["delaySeconds"], each["way"]) for each in answer["messages"]]


def texts(*words: str) -> dict[str, Any]:
    return {"queue": "orders", "retryDelaySeconds": 30, "messages": [{"text": word} for word in words]}


@pytest.mark.req("MW-17", "MW-16")
def test_a_scheduled_handler_runs_by_hand_and_its_failure_is_recorded(workers: Workers) -> None:
    worker = workers.worker("clockwork")
    version = workers.version(worker, "v1", SOURCE, BOTH, vars={"WORD": "way"})
    workers.deploy(worker, (version, 10000))
    now_ms = workers.host.management.change_clock("freeze")["nowMs"]
    ended = workers.fire(worker, "scheduled", {"cron": "*/5 * * * *"})
    assert ended == {
        "workerUid": worker.uid,
        "cron": "*/5 * * * *",
        "scheduledTime": now_ms,
        "versionUid": version.uid,
        "outcome": "succeeded",
        "error": None,
    }
    failed = workers.fire(worker, "scheduled", {"cron": "1 1 1 1 1", "scheduledTime": 60_000})
    assert (failed["scheduledTime"], failed["outcome"], failed["error"]) == (60_000, "failed", "Error: no way")
    first, second = workers.logs()
    assert first["message"] == f'tick {{"scheduledTime":{now_ms},"cron":"*/5 * * * *"}} {now_ms}'
    assert (first_line(second), second["level"]) == ("uncaught in scheduled: Error: no way", "error")
    for line in (first, second):
        assert (line["workerName"], line["workerUid"]) == ("clockwork", worker.uid)
        assert (line["versionUid"], line["contextId"]) == (version.uid, None)


@pytest.mark.req("MW-18", "MW-19")
def test_each_message_is_settled_by_call_by_return_or_by_throw(workers: Workers) -> None:
    worker = workers.serve("post", SOURCE, BOTH)
    returned = workers.fire(worker, "queue", {**texts("acknowledge", "retry", "later", "twice", "?"), "batchId": "b-1"})
    assert (returned["batchId"], returned["outcome"], returned["error"]) == ("b-1", "succeeded", None)
    assert [each["id"] for each in returned["messages"]] == [f"message-{number}" for number in range(1, 6)]
    assert fates(returned) == [
        ("acknowledged", None, "explicit"),
        ("retry", 60, "explicit"),
        ("retry", 30, "explicit"),
        ("acknowledged", None, "explicit"),
        ("acknowledged", None, "return"),
    ]
    threw = workers.fire(worker, "queue", texts("acknowledge", "throw", "acknowledge"))
    assert (threw["outcome"], threw["error"]) == ("failed", "Error: poison")
    assert fates(threw) == [("acknowledged", None, "explicit"), ("retry", 30, "throw"), ("retry", 30, "throw")]
    assert workers.manage("GET", f"/v1/workers/{worker.uid}/queue")[1]["items"] == [returned, threw]
    assert [first_line(line) for line in workers.logs()] == [
        "already_settled unknown_message",
        "uncaught in queue: Error: poison",
    ]


@pytest.mark.req("MW-10", "WD-03")
def test_what_cannot_be_started_is_an_error_and_runs_nothing(workers: Workers) -> None:
    worker = workers.worker("half")
    version = workers.version(worker, "v1", "export default { scheduled() {} };", ("scheduled",))
    tick = {"cron": "* * * * *"}
    for uid, handler, body, refused in (
        ("nobody", "scheduled", tick, (404, "unknown_worker")),
        (worker.uid, "scheduled", tick, (409, "no_deployment")),
        (worker.uid, "queue", texts("a"), (409, "no_deployment")),
    ):
        status, answer = workers.manage("POST", f"/v1/workers/{uid}/{handler}", body)
        assert (status, answer["error"]["code"]) == refused
    workers.deploy(worker, (version, 10000))
    status, answer = workers.manage("POST", f"/v1/workers/{worker.uid}/queue", texts("a"))
    assert (status, answer["error"]["code"]) == (409, "handler_not_declared")
    assert answer["error"]["message"] == (
        f"the handler was not started: the Version {version.uid} does not declare it, only [scheduled]"
    )
    assert workers.manage("GET", f"/v1/workers/{worker.uid}/queue")[1]["items"] == []


@pytest.mark.req("WD-03")
def test_events_go_by_the_weights_in_force(workers: Workers) -> None:
    worker = workers.worker("split")
    a, b = (workers.version(worker, name, SOURCE, BOTH) for name in ("a", "b"))
    live = workers.deploy(worker, (a, 5000), (b, 5000))
    seen = Counter(workers.fire(worker, "scheduled", {"cron": "* * * * *"})["versionUid"] for _ in range(40))
    seen.update(workers.fire(worker, "queue", texts("x"))["versionUid"] for _ in range(20))
    assert set(seen) == {a.uid, b.uid}
    assert min(seen.values()) >= 8
    workers.reweigh(live, (b, 10000))
    assert {workers.fire(worker, "queue", texts("x"))["versionUid"] for _ in range(10)} == {b.uid}


@pytest.mark.req("WV-09", "WD-07", "WD-04", "WD-10")
@pytest.mark.parametrize("handler", BOTH)
def test_a_running_handler_holds_its_version_and_the_retirement_cuts_it(workers: Workers, handler: str) -> None:
    worker = workers.worker("slow")
    old, new = (workers.version(worker, name, SOURCE, BOTH) for name in ("old", "new"))
    live = workers.deploy(worker, (old, 10000))
    hang = {"cron": "2 2 2 2 2"} if handler == "scheduled" else texts("acknowledge", "hang")
    with ThreadPoolExecutor() as threads:
        first = threads.submit(workers.fire, worker, handler, hang)
        wait_until(lambda: is_hanging(workers, old.uid))
        workers.host.management.change_clock("freeze")
        live = workers.reweigh(live, (new, 10000))
        with pytest.raises(RequestRefused, match="409 dependency_conflict"):
            workers.api.delete(found(workers.api, "old"))
        workers.host.management.change_clock("advance", b'{"seconds": 900}')
        cut = first.result(20)
        [withdrawn] = workers.host.management.withdrawals()
        assert (withdrawn["versionUid"], withdrawn["stop"]["kind"]) == (old.uid, "ack")
        workers.api.delete(found(workers.api, "old"))
        second = threads.submit(workers.fire, worker, handler, hang)
        wait_until(lambda: is_hanging(workers, new.uid))
        workers.api.delete(live)
        ended = second.result(20)
    for answer, version in ((cut, old), (ended, new)):
        assert (answer["versionUid"], answer["outcome"]) == (version.uid, "failed")
        if handler == "queue":
            assert fates(answer) == [("acknowledged", None, "explicit"), ("retry", 30, "lost")]
    messages = [line["message"] for line in workers.logs() if line["level"] == "error"]
    assert [message.startswith(f"{handler} was cut off: ") for message in messages] == [True, True]


def is_hanging(workers: Workers, version_uid: str) -> bool:
    """Whether a handler of the Version has said that it hangs."""
    return any((line["versionUid"], line["message"]) == (version_uid, "hanging") for line in workers.logs())


@pytest.mark.req("MW-19")
@pytest.mark.parametrize(
    ("point", "first", "is_picked"),
    [("queue.opened", "retry", False), ("queue.picked", "retry", True), ("queue.handled", "acknowledged", True)],
)
def test_a_host_that_dies_over_a_batch_leaves_it_to_be_retried(
    tmp_path: Path, point: str, first: str, is_picked: bool
) -> None:
    with running_host(tmp_path / "h") as host:
        workers = Workers(host)
        worker = workers.worker("post")
        version = workers.version(worker, "v1", SOURCE, BOTH)
        workers.deploy(worker, (version, 10000))
        assert workers.manage("POST", "/v1/faults", {"name": point})[0] == 200
        with ThreadPoolExecutor() as threads:
            threads.submit(workers.fire, worker, "queue", texts("acknowledge", "other"))
            assert host.process.wait_killed(20)
    with running_host(tmp_path / "h") as host:
        [left] = Workers(host).manage("GET", f"/v1/workers/{worker.uid}/queue")[1]["items"]
    assert (left["outcome"], left["error"]) == ("failed", "the host that ran it ended")
    assert left["versionUid"] == (version.uid if is_picked else None)
    assert [each["settlement"] for each in left["messages"]] == [first, "retry"]
    assert left["messages"][1]["way"] == "lost"


@pytest.mark.req("MW-18")
def test_a_full_batch_of_large_bodies_arrives_whole(workers: Workers) -> None:
    source = (
        "export default { async queue(batch) { console.log(batch.messages.length, batch.messages.every((m, n) =>"
        "m.body.length === 50000 && m.body.every((byte) => byte === n))); } };"
    )
    worker = workers.serve("bulk", source, ("queue",))
    bodies = [base64.b64encode(bytes([number]) * 50_000).decode() for number in range(100)]
    ended = workers.fire(worker, "queue", {"queue": "bulk", "messages": [{"body": body} for body in bodies]})
    assert ended["outcome"] == "succeeded"
    assert [line["message"] for line in workers.logs()] == ["100 true"]
