"""A DurableWorkflow as a Resource: whole replacement, what blocks it, and what a replay of its key gives."""

import asyncio

import pytest

from host.ports import BackendUnavailable, InstanceCounts
from tests.host.api import Api, deployment_spec, ref


def spec_of(worker: str, name: str = "C") -> dict[str, object]:
    return {"worker": ref(worker), "className": name}


@pytest.mark.req("DW-05")
async def test_a_put_takes_only_the_same_worker_and_class_as_a_new_generation(api: Api) -> None:
    worker, other = await api.worker("w"), await api.worker("x")
    workflow = await api.made("DurableWorkflow", "f", spec_of(worker))
    for changed in (spec_of(worker, "D"), spec_of(other), {"worker": ref(worker)}):
        refused = await api.update(workflow, 1, changed)
        assert refused.status_code in (400, 409, 422), refused.text
    assert (await api.resource(workflow))["generation"] == 1
    again = await api.update(workflow, 1, spec_of(worker))
    assert again.status_code == 200
    found = await api.resource(workflow)
    assert (found["generation"], found["observedGeneration"], found["spec"]) == (2, 2, spec_of(worker))


@pytest.mark.req("DW-07", "DW-06")
async def test_a_short_change_is_busy_and_a_live_binding_a_conflict(api: Api) -> None:
    worker = await api.worker()
    workflow = await api.made("DurableWorkflow", "f", spec_of(worker))
    binding = {"name": "WF", "resource": ref(workflow)}
    artifact = api.backend.store_bundle(["fetch"], ["C"], "v")
    bundle = await api.made("WorkerBundle", "b", {"artifact": artifact})
    version = {"worker": ref(worker), "bundle": ref(bundle), "handlers": ["fetch"], "workflowBindings": [binding]}
    bound = await api.made("WorkerVersion", "v", version)
    conflict = await api.delete(workflow, 1)
    assert (conflict.status_code, conflict.json()["code"]) == (409, "dependency_conflict")
    assert (await api.settled((await api.delete(bound, 1)).json()["id"]))["status"] == "succeeded"
    api.backend.hold("workflows.retire")
    assert (await api.delete(workflow, 1)).status_code == 202
    busy = await api.update(workflow, 1, spec_of(worker))
    assert (busy.status_code, busy.json()["code"]) == (409, "resource_busy")
    api.backend.release("workflows.retire")


@pytest.mark.req("DW-06")
async def test_a_delete_reconciles_for_as_long_as_a_stop_is_unproven(api: Api) -> None:
    """subtle-points, Workflows 8"""
    worker = await api.worker()
    workflow = await api.made("DurableWorkflow", "f", spec_of(worker))
    api.backend.fail("workflows.retire", *[BackendUnavailable("code has not been stopped yet")] * 1000)
    deletion = (await api.delete(workflow, 1)).json()
    while (found := await api.operation(deletion["id"]))["status"] != "reconciling":
        await asyncio.sleep(0)
    assert (found["effect"], found["error"]["message"]) == ("unknown", "code has not been stopped yet")
    assert workflow in api.backend.workflows
    taken = await api.create("DurableWorkflow", "f", spec_of(worker))
    assert (taken.status_code, taken.json()["code"]) == (409, "name_conflict")
    api.backend.failures.clear()
    assert (await api.settled(deletion["id"]))["status"] == "succeeded"
    assert workflow not in api.backend.workflows
    assert (await api.create("DurableWorkflow", "f", spec_of(worker))).json()["resourceUid"] != workflow


@pytest.mark.req("DW-09", "DW-02", "DW-04")
async def test_what_is_found_after_acceptance_never_turns_a_replay_into_a_conflict(api: Api) -> None:
    """subtle-points, Workflows 1"""
    worker = await api.worker()
    before = await api.create("DurableWorkflow", "early", spec_of(worker), key="key-early-00000000")
    early = before.json()["resourceUid"]
    assert (await api.resource(early))["observed"]["ready"] is False
    fit = await api.version(worker, "fit", ("C",))
    deployment = await api.made("WorkerDeployment", "d", deployment_spec(worker, (fit, 10000)))
    found = await api.resource(early)
    assert found["observed"] == {"ready": True, "instanceCounts": _none()} and found["output"] == {}
    assert (await api.settled((await api.delete(deployment, 1)).json()["id"]))["status"] == "succeeded"
    assert (await api.resource(early))["observed"]["ready"] is False
    assert (await api.settled((await api.delete(early, 1)).json()["id"]))["status"] == "succeeded"
    unfit = await api.version(worker, "unfit", ())
    await api.made("WorkerDeployment", "d2", deployment_spec(worker, (unfit, 10000)))
    fresh = await api.create("DurableWorkflow", "late", spec_of(worker))
    assert fresh.json()["code"] == "dependency_conflict"
    assert "'unfit' of the Worker does not export the class C; it exports no Workflow class" in fresh.text
    replay = await api.create("DurableWorkflow", "early", spec_of(worker), key="key-early-00000000")
    assert (replay.status_code, replay.json()["id"]) == (200, before.json()["id"])


def _none() -> dict[str, int]:
    return dict.fromkeys(InstanceCounts.__dataclass_fields__, 0)
