"""Weights and classes against each other: no pair of successes ends in unfit weights (WD-05, WD-09, DW-03)."""

import pytest

from host.ports import BackendError, CodeRejected
from tests.host.api import Api, deployment_spec, ref


async def pending_version(api: Api, worker: str, name: str, classes: list[str]) -> str:
    """A Version whose verification is held at `code.verify`."""
    bundle = await api.made("WorkerBundle", f"{name}-bundle", {"artifact": api.backend.store_bundle([], classes, name)})
    api.backend.hold("code.verify")
    answer = await api.create("WorkerVersion", name, {"worker": ref(worker), "bundle": ref(bundle), "handlers": []})
    assert answer.status_code == 202
    return str(answer.json()["resourceUid"])


def workflow_spec(worker: str) -> dict[str, object]:
    return {"worker": ref(worker), "className": "C"}


@pytest.mark.req("DW-03", "WD-09")
async def test_a_workflow_is_judged_on_weights_that_are_accepted_but_not_in_force(api: Api) -> None:
    worker = await api.worker()
    good = await api.version(worker, "good", ("C",))
    deployment = await api.made("WorkerDeployment", "d", deployment_spec(worker, (good, 10000)))
    unverified = await pending_version(api, worker, "bad", [])
    update = await api.update(deployment, 1, deployment_spec(worker, (unverified, 10000)))

    busy = await api.create("DurableWorkflow", "f", workflow_spec(worker), key="key-workflow-0000")
    assert (busy.status_code, busy.json()["code"]) == (409, "resource_busy")
    api.backend.hold("deployments.activate")
    api.backend.release("code.verify")
    await api.backend.reached["deployments.activate"].wait()
    conflict = await api.create("DurableWorkflow", "f", workflow_spec(worker), key="key-workflow-0000")
    assert (conflict.status_code, conflict.json()["code"]) == (409, "dependency_conflict")
    api.backend.release("deployments.activate")

    assert (await api.settled(update.json()["id"]))["status"] == "succeeded"
    await api.update(deployment, 2, deployment_spec(worker, (good, 10000)))
    accepted = await api.create("DurableWorkflow", "f", workflow_spec(worker), key="key-workflow-0000")
    assert accepted.status_code == 200


@pytest.mark.req("DW-03")
async def test_a_pending_deletion_of_a_deployment_brings_no_weights(api: Api) -> None:
    worker = await api.worker()
    good = await api.version(worker, "good", ("C",))
    deployment = await api.made("WorkerDeployment", "d", deployment_spec(worker, (good, 10000)))
    api.backend.hold("deployments.retire")
    await api.delete(deployment, 1)
    assert (await api.create("DurableWorkflow", "f", workflow_spec(worker))).status_code == 200
    other = await api.create("DurableWorkflow", "g", {"worker": ref(worker), "className": "D"})
    assert other.json()["code"] == "dependency_conflict"
    api.backend.release("deployments.retire")


@pytest.mark.req("WD-05", "WD-09")
async def test_weights_that_lack_a_class_of_a_pending_workflow_are_refused(api: Api) -> None:
    worker = await api.worker()
    bad = await api.version(worker, "bad")
    api.backend.hold("workflows.open")
    flow = await api.create("DurableWorkflow", "f", workflow_spec(worker))
    assert flow.status_code == 202
    refused = await api.create("WorkerDeployment", "d", deployment_spec(worker, (bad, 10000)))
    assert (refused.status_code, refused.json()["code"]) == (409, "dependency_conflict")
    api.backend.release("workflows.open")


@pytest.mark.req("WD-05", "WD-09")
async def test_weights_found_unfit_after_acceptance_fail_and_the_old_ones_stay(api: Api) -> None:
    worker = await api.worker()
    good = await api.version(worker, "good", ("C",))
    deployment = await api.made("WorkerDeployment", "d", deployment_spec(worker, (good, 10000)))
    await api.made("DurableWorkflow", "f", workflow_spec(worker))
    unverified = await pending_version(api, worker, "bad", [])
    update = await api.update(deployment, 1, deployment_spec(worker, (unverified, 10000)))
    assert update.json()["status"] == "queued"
    api.backend.release("code.verify")

    operation = await api.settled(update.json()["id"])

    assert (operation["status"], operation["effect"]) == ("failed", "none")
    assert api.backend.deployments[worker][1][0].version_uid == good
    resource = await api.resource(deployment)
    assert (resource["phase"], resource["observed"]["selectedVersions"][0]["resourceUid"]) == ("error", good)
    assert (await api.delete(unverified, 1)).json()["code"] == "dependency_conflict"
    assert (await api.delete(good, 1)).json()["code"] == "dependency_conflict"


@pytest.mark.req("WD-02")
async def test_one_deployment_per_worker_counts_what_is_undecided(api: Api) -> None:
    worker = await api.worker()
    version = await api.version(worker, "v")
    spec = deployment_spec(worker, (version, 10000))
    api.backend.hold("deployments.activate")
    first = (await api.create("WorkerDeployment", "d1", spec)).json()
    second = await api.create("WorkerDeployment", "d2", spec)
    assert (second.status_code, second.json()["code"]) == (409, "dependency_conflict")
    api.backend.release("deployments.activate")
    await api.settled(first["id"])
    assert (await api.create("WorkerDeployment", "d2", spec)).json()["code"] == "dependency_conflict"
    assert (await api.delete(first["resourceUid"], 1)).status_code == 200
    assert (await api.create("WorkerDeployment", "d2", spec)).status_code == 200


@pytest.mark.req("WD-02")
async def test_a_failed_deployment_makes_room_and_cannot_be_revived(api: Api) -> None:
    worker = await api.worker()
    unverified = await pending_version(api, worker, "bad", [])
    spec = deployment_spec(worker, (unverified, 10000))
    api.backend.fail("code.verify", CodeRejected("a syntax error"))
    first = (await api.create("WorkerDeployment", "d1", spec)).json()
    api.backend.release("code.verify")
    failed = await api.settled(first["id"])
    assert (failed["status"], failed["effect"], failed["error"]["code"]) == ("failed", "none", "dependency_unfit")
    good = deployment_spec(worker, (await api.version(worker, "good"), 10000))
    assert (await api.create("WorkerDeployment", "d2", good)).status_code == 200
    revived = await api.update(first["resourceUid"], 1, good)
    assert (revived.status_code, revived.json()["code"]) == (409, "dependency_conflict")


@pytest.mark.req("WD-02", "HA-45")
async def test_a_switch_that_may_have_happened_keeps_its_place(api: Api) -> None:
    worker = await api.worker()
    version = await api.version(worker, "v")
    spec = deployment_spec(worker, (version, 10000))
    api.backend.fail("deployments.activate", BackendError("half done"))
    first = (await api.create("WorkerDeployment", "d1", spec)).json()
    assert (first["status"], first["effect"]) == ("failed", "partial")
    assert (await api.create("WorkerDeployment", "d2", spec)).json()["code"] == "dependency_conflict"
    flow = await api.create("DurableWorkflow", "f", workflow_spec(worker))
    assert flow.json()["code"] == "dependency_conflict"
    assert (await api.update(first["resourceUid"], 1, spec)).json()["status"] == "succeeded"


@pytest.mark.req("WD-01")
async def test_a_version_of_another_worker_is_refused(api: Api) -> None:
    version = await api.version(await api.worker("one"), "v")
    other = await api.worker("two")
    refused = await api.create("WorkerDeployment", "d", deployment_spec(other, (version, 10000)))
    assert refused.json()["code"] == "dependency_conflict"
