"""Idempotency keys: one intent, one Operation, whatever happened since."""

import asyncio

import pytest

from host.http.routes import ROOT
from tests.host.api import Api, form_url, ref


@pytest.mark.req("HA-52")
async def test_the_key_comes_before_all_state(api: Api) -> None:
    first = (await api.create("ModuleWorker", "w1", {}, key="key-a-0000000000")).json()
    deleted = (await api.delete(first["resourceUid"], 1, key="key-b-0000000000")).json()
    second = (await api.create("ModuleWorker", "w1", {}, key="key-c-0000000000")).json()

    again = await api.create("ModuleWorker", "w1", {}, key="key-a-0000000000")
    assert (again.status_code, again.json()) == (200, first)
    assert (await api.delete(first["resourceUid"], 1, key="key-b-0000000000")).json() == deleted
    elsewhere = await api.create("ModuleWorker", "w1", {}, key="key-a-0000000000", space="t")
    assert (elsewhere.status_code, elsewhere.json()["code"]) == (409, "idempotency_conflict")
    listed = (await api.get("/resources")).json()["items"]
    assert [item["uid"] for item in listed] == [second["resourceUid"]]


@pytest.mark.req("HA-51")
async def test_spelling_does_not_matter_and_values_do(api: Api) -> None:
    headers = {"content-type": "application/json", "idempotency-key": "key-same-00000000"}
    form = form_url("ModuleWorker")
    answers = [
        await api.client.post(f"{ROOT}/resources", content=text, headers=headers)
        for text in (
            f'{{"form":"{form}","space":"s","name":"w","spec":{{}}}}',
            f'{{ "spec": {{}}, "name" : "\\u0077", "space":"s", "form":"{form}" }}',
            f'{{"form":"{form}","space":"s","name":"x","spec":{{}}}}',
        )
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 409]
    assert answers[0].json() == answers[1].json()


@pytest.mark.req("HA-52")
async def test_concurrent_copies_have_one_winner(api: Api) -> None:
    answers = await asyncio.gather(*(api.create("ModuleWorker", "w", {}, key="key-copies-000000") for _ in range(8)))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert len((await api.get("/resources")).json()["items"]) == 1


@pytest.mark.req("HA-52", "HA-53")
async def test_a_held_operation_is_found_by_its_key_meanwhile(api: Api) -> None:
    api.backend.hold("workers.register")
    first = await api.create("ModuleWorker", "w", {}, key="key-slow-00000000")
    again = await api.create("ModuleWorker", "w", {}, key="key-slow-00000000")
    other = await api.create("ModuleWorker", "x", {}, key="key-slow-00000000")
    assert (first.status_code, again.status_code) == (202, 202)
    assert again.json()["id"] == first.json()["id"]
    assert other.json()["code"] == "idempotency_conflict"
    api.backend.release("workers.register")
    await api.settled(first.json()["id"])
    assert (await api.create("ModuleWorker", "w", {}, key="key-slow-00000000")).status_code == 200
    assert [call for call, _ in api.backend.calls].count("workers.register") == 1


@pytest.mark.req("HA-52")
async def test_a_refusal_uses_no_key_up(api: Api) -> None:
    spec = {"worker": ref("r-absent"), "className": "C"}
    assert (await api.create("DurableWorkflow", "f", spec, key="key-first-0000000")).status_code == 409
    worker = await api.worker()
    spec = {"worker": ref(worker), "className": "C"}
    assert (await api.create("DurableWorkflow", "f", spec, key="key-first-0000000")).status_code == 200


@pytest.mark.req("HA-34")
async def test_pages_walk_in_order_of_uid_and_their_cursor_is_bound(api: Api) -> None:
    uids = sorted([await api.worker(f"w{number}") for number in range(5)])
    walked: list[str] = []
    cursor = None
    while True:
        parameters: dict[str, str | int] = {"limit": 2, "space": "s"}
        page = (await api.get("/resources", **parameters, **({"cursor": cursor} if cursor else {}))).json()
        walked += [item["uid"] for item in page["items"]]
        if page["nextCursor"] is None:
            break
        cursor = page["nextCursor"]
    assert walked == uids
    assert cursor is not None
    for parameters in (
        {"cursor": cursor},
        {"cursor": cursor, "space": "t"},
        {"cursor": ("B" if cursor.startswith("A") else "A") + cursor[1:], "space": "s"},
    ):
        assert (await api.get("/resources", **parameters)).status_code == 400
    assert (await api.get("/resources", cursor=cursor, space="s", limit=5)).status_code == 200
    filtered = (await api.get("/resources", name="w3", form=form_url("ModuleWorker"))).json()
    assert [item["name"] for item in filtered["items"]] == ["w3"]
