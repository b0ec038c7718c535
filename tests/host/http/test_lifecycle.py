"""Whole lives of Resources through HTTP: what the main job of a client meets."""

import pytest

from tests.host.api import ORIGIN, Api, deployment_spec, form_url, ref


@pytest.mark.req("HA-30", "HA-32", "HA-38", "HA-40", "HA-41", "MW-01")
async def test_a_created_worker_is_idle_and_its_operation_says_everything(api: Api) -> None:
    answer = await api.create("ModuleWorker", "w", {})

    assert answer.status_code == 200
    operation = answer.json()
    assert answer.headers["location"] == f"{ORIGIN}/apis/forms.takoform.com/v2/operations/{operation['id']}"
    assert operation == {
        "id": operation["id"],
        "resourceUid": operation["resourceUid"],
        "action": "create",
        "generation": 1,
        "status": "succeeded",
        "effect": "complete",
        "createdAt": "2025-10-09T08:53:20.000Z",
        "updatedAt": "2025-10-09T08:53:20.000Z",
        "retainUntil": "2025-10-10T08:53:20.000Z",
    }
    assert await api.operation(operation["id"]) == operation
    assert await api.resource(operation["resourceUid"]) == {
        "uid": operation["resourceUid"],
        "form": form_url("ModuleWorker"),
        "space": "s",
        "name": "w",
        "generation": 1,
        "observedGeneration": 1,
        "observedAt": "2025-10-09T08:53:20.000Z",
        "phase": "idle",
        "spec": {},
        "observed": {"activeDeploymentUid": None, "ready": False},
        "output": {},
        "lastOperation": operation["id"],
    }


@pytest.mark.req("WB-05", "WV-08", "WD-06", "DW-02", "DW-04", "MW-01")
async def test_five_forms_come_up_together_and_show_their_readiness(api: Api) -> None:
    worker = await api.worker()
    workflow = await api.made("DurableWorkflow", "flow", {"worker": ref(worker), "className": "Order"})
    assert (await api.resource(workflow))["observed"]["ready"] is False
    artifact = api.backend.store_bundle(["fetch"], ["Order"])
    bundle = await api.made("WorkerBundle", "b", {"artifact": artifact})
    observed = (await api.resource(bundle))["observed"]
    assert observed["manifestSha256"] == artifact["sha256"]
    assert observed["fileCount"] == 1
    assert observed["totalBytes"] == observed["files"][0]["byteSize"]
    spec = {
        "worker": ref(worker),
        "bundle": ref(bundle),
        "handlers": ["fetch"],
        "vars": {"LIMIT": 3},
        "workflowBindings": [{"name": "FLOW", "resource": ref(workflow)}],
    }
    version = await api.made("WorkerVersion", "v", spec)
    assert (await api.resource(version))["observed"] == {
        "ready": True,
        "resolvedBindings": True,
        "bundleVerified": True,
    }
    assert api.backend.versions[version].vars == {"LIMIT": 3}

    deployment = await api.made("WorkerDeployment", "d", deployment_spec(worker, (version, 10000)))

    assert (await api.resource(deployment))["observed"] == {
        "ready": True,
        "active": True,
        "selectedVersions": [{"resourceUid": version, "weight": 10000}],
    }
    assert (await api.resource(worker))["observed"] == {"activeDeploymentUid": deployment, "ready": True}
    assert (await api.resource(workflow))["observed"]["ready"] is True
    operation = await api.delete(deployment, 1)
    assert operation.json()["status"] == "succeeded"
    assert (await api.resource(worker))["observed"] == {"activeDeploymentUid": None, "ready": False}
    assert (await api.resource(workflow))["observed"]["ready"] is False


@pytest.mark.req("HA-36", "HA-54", "HA-33")
async def test_a_deleted_resource_is_gone_and_its_operation_stays(api: Api) -> None:
    worker = await api.worker()
    deleted = await api.delete(worker, 1)

    assert deleted.json()["action"] == "delete"
    assert deleted.json()["generation"] == 2
    assert (await api.get(f"/resources/{worker}")).status_code == 410
    assert (await api.delete(worker, 2)).status_code == 410
    assert (await api.operation(deleted.json()["id"]))["status"] == "succeeded"
    assert (await api.create("ModuleWorker", "w", {})).status_code == 200


@pytest.mark.req("HA-35", "HA-38", "WB-10")
async def test_an_equal_update_is_a_new_operation_and_generation(api: Api) -> None:
    artifact = api.backend.store_bundle(["fetch"], [])
    bundle = await api.made("WorkerBundle", "b", {"artifact": artifact})
    before = await api.resource(bundle)
    api.clock.move_to(api.clock.now_ms() + 1000)

    answer = await api.update(bundle, 1, {"artifact": artifact})

    assert (answer.status_code, answer.json()["generation"], answer.json()["action"]) == (200, 2, "update")
    after = await api.resource(bundle)
    assert after["observed"] == before["observed"]
    assert (after["generation"], after["observedGeneration"]) == (2, 2)
    assert after["observedAt"] > before["observedAt"]


@pytest.mark.req("HA-36", "WB-08", "WV-09", "WV-18", "DW-06", "MW-01")
async def test_nothing_is_deleted_that_something_live_refers_to(api: Api) -> None:
    worker = await api.worker()
    workflow = await api.made("DurableWorkflow", "flow", {"worker": ref(worker), "className": "Order"})
    artifact = api.backend.store_bundle([], ["Order"])
    bundle = await api.made("WorkerBundle", "b", {"artifact": artifact})
    spec = {
        "worker": ref(worker),
        "bundle": ref(bundle),
        "handlers": [],
        "workflowBindings": [{"name": "FLOW", "resource": ref(workflow)}],
    }
    version = await api.made("WorkerVersion", "v", spec)
    deployment = await api.made("WorkerDeployment", "d", deployment_spec(worker, (version, 10000)))

    for uid in (worker, workflow, bundle, version):
        refused = await api.delete(uid, 1)
        assert (refused.status_code, refused.json()["code"]) == (409, "dependency_conflict")
    for uid in (deployment, version, bundle, workflow, worker):
        assert (await api.delete(uid, 1)).json()["status"] == "succeeded"
    assert not api.backend.held_by
    assert (await api.get("/resources")).json() == {"items": [], "nextCursor": None}


@pytest.mark.req("WV-09")
async def test_a_version_that_still_executes_is_not_deleted(api: Api) -> None:
    version = await api.version(await api.worker(), "v")
    api.backend.executing.add(version)
    assert (await api.delete(version, 1)).json()["code"] == "dependency_conflict"
    api.backend.executing.clear()
    assert (await api.delete(version, 1)).status_code == 200


@pytest.mark.req("HA-35", "HA-36", "HA-38")
async def test_a_stale_or_future_generation_changes_nothing(api: Api) -> None:
    worker = await api.worker()
    assert (await api.update(worker, 1, {})).json()["generation"] == 2
    before = await api.resource(worker)
    for generation in (0, 1, 3, 9007199254740991):
        for answer in (await api.update(worker, generation, {}), await api.delete(worker, generation)):
            assert (answer.status_code, answer.json()["code"]) == (409, "generation_conflict")
    assert await api.resource(worker) == before


@pytest.mark.req("HA-40", "HA-38")
async def test_an_unfinished_mutation_is_a_202_that_says_where_and_when_to_look(api: Api) -> None:
    worker = await api.worker()
    api.backend.hold("workers.register")
    api.backend.hold("workers.retire")
    slow = await api.update(worker, 1, {}, key="key-slow-update-00")
    again = await api.update(worker, 1, {}, key="key-slow-update-00")
    for answer in (slow, again):
        operation = answer.json()
        assert (answer.status_code, operation["status"], operation["generation"]) == (202, "running", 2)
        assert answer.headers["retry-after"].isdecimal()
        assert int(answer.headers["retry-after"]) > 0
        assert answer.headers["location"] == f"{ORIGIN}/apis/forms.takoform.com/v2/operations/{operation['id']}"
    assert (await api.get(f"/operations/{slow.json()['id']}")).headers.get("retry-after") is None
    api.backend.release("workers.register")
    await api.settled(slow.json()["id"])
    done = await api.update(worker, 1, {}, key="key-slow-update-00")
    assert (done.status_code, done.json()["status"]) == (200, "succeeded")
    assert "retry-after" not in done.headers
    assert done.headers["location"] == slow.headers["location"]
    deleting = await api.delete(worker, 2)
    assert (deleting.status_code, deleting.headers["retry-after"]) == (202, slow.headers["retry-after"])
    api.backend.release("workers.retire")
