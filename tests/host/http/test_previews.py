"""Previews: the checks of the real mutation, and nothing left behind."""

from pathlib import Path
from typing import Any

import pytest

from host.http.routes import ROOT
from tests.host.api import Api, Json, form_url, ref


def create_body(form: str = "ModuleWorker", name: str = "w", spec: Json | None = None, **more: Any) -> Json:
    entry = {"form": form_url(form), "space": "s", "name": name, "spec": spec or {}, **more}
    return {"action": "create", "input": entry}


async def counted(api: Api) -> list[tuple[Any, ...]]:
    """How many rows each table has."""
    names = ["resources", "operations", "idempotency_keys", "resource_references", "private_values"]
    names += ["private_comparisons", "deleted_resources"]
    sql = "SELECT " + ", ".join(f"(SELECT count(*) FROM {name})" for name in names)
    return list(await api.database.read(lambda tx: tx.execute(sql)))


@pytest.mark.req("HA-70", "HA-71")
async def test_a_preview_says_what_the_mutation_would_meet_and_leaves_nothing(api: Api) -> None:
    worker = await api.worker()
    workflow = {"worker": ref(worker), "className": "C"}
    bundle = await api.made("WorkerBundle", "b", {"artifact": api.backend.store_bundle([], [])})
    secret = {"worker": ref(worker), "bundle": ref(bundle), "handlers": [], "requiredSensitiveVars": ["TOKEN"]}
    flow = await api.made("DurableWorkflow", "flow", workflow)
    before, calls = await counted(api), len(api.backend.calls)
    target = {"uid": flow, "expectedGeneration": 1}
    expected: list[tuple[Json, str | None]] = [
        (create_body(name="new"), None),
        (create_body("DurableWorkflow", "new", workflow), None),
        (create_body("WorkerVersion", "new", secret, privateInputs={"TOKEN": "correct horse"}), None),
        (create_body("WorkerVersion", "new", secret), "invalid_spec"),
        (create_body(), "name_conflict"),
        (create_body(name="new", spec={"x": 1}), "invalid_spec"),
        (create_body(name="new", privateInputs={}), "capability_required"),
        (create_body(name="new", offering={"id": "o", "revision": "1"}), "capability_required"),
        (create_body("DurableWorkflow", "new", {**workflow, "worker": ref("r-absent")}), "dependency_conflict"),
        ({"action": "create", "input": {**create_body()["input"], "form": "https://a.b/"}}, "unsupported_form"),
        ({"action": "update", **target, "input": {"spec": workflow}}, None),
        ({"action": "update", **target, "input": {"spec": {**workflow, "className": "D"}}}, "invalid_spec"),
        ({"action": "update", **target, "expectedGeneration": 2, "input": {"spec": workflow}}, "generation_conflict"),
        ({"action": "delete", **target}, None),
        ({"action": "delete", "uid": worker, "expectedGeneration": 1}, "dependency_conflict"),
    ]
    for body, code in expected:
        answer = await api.preview(body)
        assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store"), answer.text
        preview = answer.json()
        assert preview.keys() == {"valid", "errors"}
        assert (preview["valid"], [each["code"] for each in preview["errors"]]) == (
            code is None,
            [code] if code else [],
        )
        assert all(each.keys() == {"code", "message"} for each in preview["errors"])
        assert "horse" not in answer.text
    assert await counted(api) == before
    assert len(api.backend.calls) == calls
    assert (await api.create("ModuleWorker", "new", {})).status_code == 200


@pytest.mark.req("HA-70")
async def test_a_preview_of_a_delete_asks_the_running_system(api: Api) -> None:
    version = await api.version(await api.worker(), "v")
    api.backend.executing.add(version)
    body = {"action": "delete", "uid": version, "expectedGeneration": 1}
    assert (await api.preview(body)).json()["errors"][0]["code"] == "dependency_conflict"
    api.backend.executing.clear()
    assert (await api.preview(body)).json() == {"valid": True, "errors": []}


@pytest.mark.req("HA-70", "HA-37")
async def test_a_preview_of_a_busy_resource_says_so(api: Api) -> None:
    api.backend.hold("workers.register")
    uid = (await api.create("ModuleWorker", "w", {})).json()["resourceUid"]
    body = {"action": "update", "uid": uid, "expectedGeneration": 1, "input": {"spec": {}}}
    assert (await api.preview(body)).json()["errors"][0]["code"] == "resource_busy"
    api.backend.release("workers.register")


@pytest.mark.req("HA-70", "HA-08", "HA-07")
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"action": "read"},
        {"action": None, "input": {}},
        {"action": "create"},
        {"action": "create", "input": None},
        {"action": "create", "input": {"form": "x"}},
        {**create_body(), "more": 1},
        {**create_body(), "uid": "u"},
        {"action": "update", "uid": "u", "input": {"spec": {}}},
        {"action": "update", "uid": "u", "expectedGeneration": "1", "input": {"spec": {}}},
        {"action": "update", "uid": "u", "expectedGeneration": -1, "input": {"spec": {}}},
        {"action": "update", "uid": "u", "expectedGeneration": True, "input": {"spec": {}}},
        {"action": "update", "uid": "u", "expectedGeneration": 9007199254740992, "input": {"spec": {}}},
        {"action": "update", "uid": "a/b", "expectedGeneration": 1, "input": {"spec": {}}},
        {"action": "update", "uid": "u", "expectedGeneration": 1, "input": {"spec": None}},
        {"action": "update", "uid": "u", "expectedGeneration": 1, "input": {"spec": {}, "name": "n"}},
        {"action": "delete", "uid": "u"},
        {"action": "delete", "uid": "u", "expectedGeneration": 1, "input": {}},
    ],
)
async def test_a_malformed_preview_is_a_bad_request(api: Api, body: Json) -> None:
    answer = await api.preview(body)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")


@pytest.mark.req("HA-70", "HA-23")
async def test_a_target_that_is_not_there_is_refused_as_anywhere_else(api: Api) -> None:
    body = {"action": "delete", "uid": "r-absent", "expectedGeneration": 1}
    assert (await api.preview(body)).status_code == 404
    worker = await api.worker()
    await api.delete(worker, 1)
    assert (await api.preview({**body, "uid": worker})).status_code == 410
    query = await api.client.post(f"{ROOT}/previews?x=1", json=body)
    assert query.status_code == 400
    text = await api.client.post(f"{ROOT}/previews", content=b"{}", headers={"content-type": "text/plain"})
    assert text.status_code == 415


@pytest.mark.req("HA-70", "HA-61")
async def test_a_preview_keeps_no_secret_anywhere(api: Api, tmp_path: Path) -> None:
    worker = await api.worker()
    spec = {"worker": ref(worker), "bundle": ref("r-absent"), "handlers": [], "requiredSensitiveVars": ["TOKEN"]}
    await api.preview(create_body("WorkerVersion", "v", spec, privateInputs={"TOKEN": "correct horse"}))
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"horse" not in stored
