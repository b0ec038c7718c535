"""What the host does not take on now: 429 and 503 leave nothing behind, and a replay is answered all the same."""

from pathlib import Path

import apsw
import httpx
import pytest

from host.engine.limits import Limits
from host.sqlite import DatabaseBusy, connection
from tests.host.api import Api, running_api
from tests.host.http.test_principals import TWO, people

TIGHT = Limits(settle_wait_s=0.05, unfinished_operations=2)
KEYS = tuple(f"key-admission-{number:05d}" for number in range(9))


async def fill(api: Api) -> list[str]:
    """Ids of as many unfinished Operations as `TIGHT` allows."""
    api.backend.hold("workers.register")
    answers = [await api.create("ModuleWorker", f"w{number}", {}, key=KEYS[number]) for number in range(2)]
    assert [answer.status_code for answer in answers] == [202, 202]
    return [answer.json()["id"] for answer in answers]


def said(answer: httpx.Response) -> tuple[int, str]:
    """Status and code of a refusal that is worth a retry."""
    assert int(answer.headers["retry-after"]) > 0
    assert "operationId" not in answer.json()
    return answer.status_code, answer.json()["code"]


@pytest.mark.req("HA-14", "HA-52")
async def test_a_principal_with_too_many_unfinished_operations_is_told_to_wait(tmp_path: Path) -> None:
    async with running_api(tmp_path / "control.sqlite", limits=TIGHT) as api:
        await api.worker("old")
        first, _ = await fill(api)
        assert said(await api.create("ModuleWorker", "w2", {}, key=KEYS[2])) == (429, "rate_limited")
        old = (await api.get("/resources", name="old")).json()["items"][0]
        assert said(await api.update(old["uid"], 1, {}, key=KEYS[3])) == (429, "rate_limited")
        assert said(await api.delete(old["uid"], 1, key=KEYS[3])) == (429, "rate_limited")
        assert (await api.get("/resources", name="w2")).json()["items"] == []
        assert (await api.resource(old["uid"]))["generation"] == 1

        replay = await api.create("ModuleWorker", "w0", {}, key=KEYS[0])
        assert (replay.status_code, replay.json()["id"]) == (202, first)
        other = await api.create("ModuleWorker", "w0", {"a": 1}, key=KEYS[0])
        assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")

        api.backend.release("workers.register")
        await api.settled(first)
        another = await api.create("ModuleWorker", "another", {}, key=KEYS[2])
        assert another.status_code in (200, 202), "the refusals used no key up"


@pytest.mark.req("HA-14", "HA-52", "HA-23")
async def test_the_bound_of_one_principal_is_not_anothers(tmp_path: Path) -> None:
    async with people(tmp_path, TWO, TIGHT) as found:
        alice, bob = found.acting("alice"), found.acting("bob")
        await fill(alice)
        assert said(await alice.create("ModuleWorker", "w2", {})) == (429, "rate_limited")
        assert (await bob.create("ModuleWorker", "w2", {})).status_code == 202
        alice.backend.release("workers.register")


@pytest.mark.req("HA-14", "HA-52")
async def test_a_host_that_stops_accepts_nothing_more_and_still_answers(api: Api) -> None:
    made = await api.create("ModuleWorker", "w", {}, key=KEYS[0])
    api.engine.stop_accepting()
    assert said(await api.create("ModuleWorker", "w2", {}, key=KEYS[1])) == (503, "temporarily_unavailable")
    assert (await api.create("ModuleWorker", "w", {}, key=KEYS[0])).json() == made.json()
    assert [each["name"] for each in (await api.get("/resources")).json()["items"]] == ["w"]


@pytest.mark.req("HA-14", "HA-13")
async def test_a_database_that_another_process_holds_is_worth_a_retry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "control.sqlite"
    async with running_api(path) as api:
        monkeypatch.setattr(connection, "BUSY_DEADLINE_S", 0.01)
        holder = apsw.Connection(str(path))
        holder.execute("BEGIN IMMEDIATE")
        try:
            assert said(await api.create("ModuleWorker", "w", {}, key=KEYS[0])) == (503, "temporarily_unavailable")
            assert (await api.get("/resources")).json()["items"] == []
        finally:
            holder.close()
        assert (await api.create("ModuleWorker", "w", {}, key=KEYS[0])).status_code == 200


@pytest.mark.req("HA-14", "HA-13")
async def test_a_read_of_a_busy_database_is_worth_a_retry(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    uid = await api.worker()

    async def refuse(work: object) -> object:
        raise DatabaseBusy("locked by /secret/path")

    monkeypatch.setattr(api.database, "read", refuse)
    for path in ("/resources", f"/resources/{uid}", "/operations/op-1"):
        answer = await api.get(path)
        assert said(answer) == (503, "temporarily_unavailable")
        assert "secret" not in answer.text
