"""A WorkerEndpoint as a Resource: its address, what it needs of the weights, one per Worker, unknown results."""

import asyncio
from pathlib import Path

import pytest

from host.engine.acceptance import AFTER_COMMIT
from host.model.faults import FaultAction
from host.model.operation_states import Effect
from host.ports import BackendError, BackendUnavailable
from tests.host.api import Api, Json, deployment_spec, form_url, ref, running_api
from tests.host.backend import FakeBackend

CONFIRMED = {"tlsReady": True, "activeDeploymentRouteReady": True}


async def served_worker(api: Api, name: str = "w") -> tuple[str, str]:
    """A Worker and the Deployment of its only Version, which has a `fetch`."""
    worker = await api.worker(name)
    version = await api.version(worker, f"{name}-v")
    spec = deployment_spec(worker, (version, 10000))
    return worker, await api.made("WorkerDeployment", f"{name}-live", spec)


async def endpoint(api: Api, worker: str, name: str = "shop") -> Json:
    """The Operation of a new endpoint, decided."""
    answer = await api.create("WorkerEndpoint", name, {"worker": ref(worker)})
    assert answer.status_code in (200, 202), answer.text
    return await api.settled(answer.json()["id"])


async def refusal(api: Api, worker: str, name: str = "other") -> tuple[int, str]:
    """Status and code of a create that is refused."""
    answer = await api.create("WorkerEndpoint", name, {"worker": ref(worker)})
    return answer.status_code, answer.json()["code"]


async def reconciling(api: Api, operation: str) -> Json:
    while (found := await api.operation(operation))["status"] != "reconciling":
        assert found["status"] not in ("succeeded", "failed"), found
        await asyncio.sleep(0)
    return found


@pytest.mark.req("WE-01")
@pytest.mark.parametrize("change", [{"port": 443}, {"hostname": "a.example"}, {"worker": None}, {"worker": "w"}])
async def test_the_spec_is_a_worker_and_nothing_else(api: Api, change: Json) -> None:
    worker, _ = await served_worker(api)
    spec = {"worker": ref(worker), **change}
    refused = await api.create("WorkerEndpoint", "shop", spec)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_spec")
    assert (await api.create("WorkerEndpoint", "shop", {})).json()["code"] == "invalid_spec"


@pytest.mark.req("WE-01")
async def test_a_worker_is_named_by_uid_in_the_same_space(api: Api) -> None:
    worker, deployment = await served_worker(api)
    for wrong in ("w", deployment, "00000000-0000-0000-0000-000000000000"):
        assert await refusal(api, wrong) == (409, "dependency_conflict")
    elsewhere = await api.create("WorkerEndpoint", "shop", {"worker": ref(worker)}, space="another")
    assert elsewhere.json()["code"] == "dependency_conflict"
    assert api.backend.endpoints == {}


@pytest.mark.req("WE-01", "WE-05")
async def test_a_put_with_another_worker_is_refused_before_effects(api: Api) -> None:
    worker, _ = await served_worker(api)
    other, _ = await served_worker(api, "x")
    made = await endpoint(api, worker)
    before = dict(api.backend.endpoints)
    refused = await api.update(made["resourceUid"], 1, {"worker": ref(other)})
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_spec")
    assert api.backend.endpoints == before
    assert (await api.resource(made["resourceUid"]))["generation"] == 1


@pytest.mark.req("WE-02", "HA-29")
@pytest.mark.parametrize("inputs", [{}, {"TOKEN": "x"}])
async def test_private_inputs_are_refused_even_empty(api: Api, inputs: Json) -> None:
    worker, _ = await served_worker(api)
    refused = await api.create("WorkerEndpoint", "shop", {"worker": ref(worker)}, privateInputs=inputs)
    assert (refused.status_code, refused.json()["code"]) == (422, "capability_required")


@pytest.mark.req("WE-03", "WE-04", "WE-06")
async def test_the_address_is_there_from_acceptance_and_nothing_is_observed_before_the_first_look(api: Api) -> None:
    worker, _ = await served_worker(api)
    api.backend.hold("endpoints.attach")
    accepted = await api.create("WorkerEndpoint", "Shop", {"worker": ref(worker)})
    assert accepted.status_code == 202
    uid = accepted.json()["resourceUid"]
    pending = await api.resource(uid)
    assert set(pending["output"]) == {"hostname", "url"}
    assert pending["output"]["url"] == f"https://{pending['output']['hostname']}/"
    assert (pending["observed"], pending["observedAt"], pending["observedGeneration"]) == ({}, None, 0)
    api.backend.release("endpoints.attach")
    await api.settled(accepted.json()["id"])
    ready = await api.resource(uid)
    assert (ready["output"], ready["observed"]) == (pending["output"], CONFIRMED)
    assert api.backend.endpoints == {uid: (worker, pending["output"]["hostname"])}


@pytest.mark.req("WE-03", "HA-32")
async def test_the_address_is_as_durable_as_the_acceptance(tmp_path: Path) -> None:
    backend = FakeBackend()
    async with running_api(tmp_path / "control.sqlite", backend) as api:
        worker, _ = await served_worker(api)
        api.faults.arm(AFTER_COMMIT, action=FaultAction.ERROR)
        backend.hold("endpoints.attach")
        lost = await api.create("WorkerEndpoint", "shop", {"worker": ref(worker)}, key="key-endpoint-0000")
        assert lost.status_code == 500
        (found,) = (await api.get("/resources", name="shop")).json()["items"]
        output = found["output"]
        assert output["hostname"].startswith("shop-")
    backend.gates.clear()
    async with running_api(tmp_path / "control.sqlite", backend) as api:
        again = await api.create("WorkerEndpoint", "shop", {"worker": ref(worker)}, key="key-endpoint-0000")
        await api.settled(again.json()["id"])
        assert (await api.resource(found["uid"]))["output"] == output
        assert again.json()["resourceUid"] == found["uid"]


@pytest.mark.req("WE-05", "WE-11", "WE-10")
async def test_the_address_stays_through_puts_and_switches(api: Api) -> None:
    worker, deployment = await served_worker(api)
    uid = (await endpoint(api, worker))["resourceUid"]
    output = (await api.resource(uid))["output"]
    second = await api.version(worker, "second")
    assert (await api.update(deployment, 1, deployment_spec(worker, (second, 10000)))).status_code == 200
    api.backend.endpoints.clear()
    again = await api.update(uid, 1, {"worker": ref(worker)})
    assert (again.json()["status"], again.json()["action"]) == ("succeeded", "update")
    found = await api.resource(uid)
    assert (found["output"], found["generation"], found["observed"]) == (output, 2, CONFIRMED)
    assert api.backend.endpoints == {uid: (worker, output["hostname"])}


@pytest.mark.req("WE-11", "HA-33")
async def test_a_read_asks_and_changes_nothing(api: Api) -> None:
    worker, _ = await served_worker(api)
    uid = (await endpoint(api, worker))["resourceUid"]
    before = list(api.backend.calls)
    await api.resource(uid)
    await api.get("/resources")
    assert api.backend.calls == before


@pytest.mark.req("WE-06", "WD-07", "WE-05")
async def test_without_a_deployment_the_address_stays_and_its_route_is_not_ready(api: Api) -> None:
    """subtle-points, Host API 10"""
    worker, deployment = await served_worker(api)
    uid = (await endpoint(api, worker))["resourceUid"]
    output = (await api.resource(uid))["output"]
    gone = await api.delete(deployment, 1)
    assert (await api.settled(gone.json()["id"]))["status"] == "succeeded"
    found = await api.resource(uid)
    assert found["observed"] == {"tlsReady": True, "activeDeploymentRouteReady": False}
    assert (found["output"], found["phase"], found["generation"]) == (output, "idle", 1)
    version = await api.version(worker, "later")
    await api.made("WorkerDeployment", "again", deployment_spec(worker, (version, 10000)))
    assert (await api.resource(uid))["observed"] == CONFIRMED


@pytest.mark.req("WE-06")
async def test_what_cannot_be_looked_up_is_left_out(api: Api) -> None:
    worker, deployment = await served_worker(api)
    uid = (await endpoint(api, worker))["resourceUid"]
    version = await api.version(worker, "second")
    api.backend.gateway_answers = False
    await api.update(deployment, 1, deployment_spec(worker, (version, 10000)))
    assert (await api.resource(uid))["observed"] == {}
    await api.settled((await api.delete(deployment, 2)).json()["id"])
    assert (await api.resource(uid))["observed"] == {"activeDeploymentRouteReady": False}


@pytest.mark.req("WE-06")
async def test_lost_tls_and_a_lost_route_are_shown_as_not_ready(api: Api) -> None:
    worker, deployment = await served_worker(api)
    uid = (await endpoint(api, worker))["resourceUid"]
    version = await api.version(worker, "second")
    api.backend.tls_ready = False
    api.backend.endpoints.clear()
    await api.update(deployment, 1, deployment_spec(worker, (version, 10000)))
    assert (await api.resource(uid))["observed"] == {"tlsReady": False, "activeDeploymentRouteReady": False}


@pytest.mark.req("WE-07")
async def test_a_worker_without_an_active_deployment_gets_no_endpoint(api: Api) -> None:
    worker = await api.worker()
    assert await refusal(api, worker) == (409, "dependency_conflict")
    body = {"form": form_url("WorkerEndpoint"), "space": "s", "name": "n", "spec": {"worker": ref(worker)}}
    said = (await api.preview({"action": "create", "input": body})).json()
    assert (said["valid"], said["errors"][0]["code"]) == (False, "dependency_conflict")
    assert api.backend.endpoints == {}


@pytest.mark.req("WE-07")
async def test_weights_of_which_one_cannot_answer_http_refuse_an_endpoint(api: Api) -> None:
    worker = await api.worker()
    good, silent = await api.version(worker, "good"), await api.version(worker, "silent", handlers=())
    spec = deployment_spec(worker, (good, 9999), (silent, 1))
    deployment = await api.made("WorkerDeployment", "d", spec)
    assert await refusal(api, worker) == (409, "dependency_conflict")
    await api.update(deployment, 1, deployment_spec(worker, (good, 10000)))
    assert (await endpoint(api, worker))["status"] == "succeeded"


@pytest.mark.req("WE-07", "WE-11")
async def test_a_put_is_checked_like_a_create(api: Api) -> None:
    worker, deployment = await served_worker(api)
    uid = (await endpoint(api, worker))["resourceUid"]
    await api.settled((await api.delete(deployment, 1)).json()["id"])
    refused = await api.update(uid, 1, {"worker": ref(worker)})
    assert (refused.status_code, refused.json()["code"]) == (409, "dependency_conflict")
    assert (await api.resource(uid))["generation"] == 1


@pytest.mark.req("WD-05", "WD-09")
async def test_weights_that_cannot_answer_http_are_refused_while_there_is_an_endpoint(api: Api) -> None:
    worker, deployment = await served_worker(api)
    silent = await api.version(worker, "silent", handlers=())
    api.backend.hold("endpoints.attach")
    made = await api.create("WorkerEndpoint", "shop", {"worker": ref(worker)})
    spec = deployment_spec(worker, (silent, 10000))
    pending = await api.update(deployment, 1, spec)
    api.backend.release("endpoints.attach")
    await api.settled(made.json()["id"])
    refused = await api.update(deployment, 1, spec)
    assert [each.json()["code"] for each in (pending, refused)] == ["dependency_conflict"] * 2
    await api.settled((await api.delete(made.json()["resourceUid"], 1)).json()["id"])
    assert (await api.update(deployment, 1, spec)).json()["status"] == "succeeded"


@pytest.mark.req("WD-09", "WE-07")
async def test_an_endpoint_waits_for_no_weights_that_are_accepted_and_unverified(api: Api) -> None:
    worker, deployment = await served_worker(api)
    bundle = await api.made("WorkerBundle", "b", {"artifact": api.backend.store_bundle(["fetch"], [], "b")})
    api.backend.hold("code.verify")
    spec = {"worker": ref(worker), "bundle": ref(bundle), "handlers": ["fetch"]}
    unverified = (await api.create("WorkerVersion", "v2", spec)).json()["resourceUid"]
    switch = await api.update(deployment, 1, deployment_spec(worker, (unverified, 10000)))
    assert await refusal(api, worker) == (409, "resource_busy")
    api.backend.release("code.verify")
    await api.settled(switch.json()["id"])
    assert (await endpoint(api, worker, "other"))["status"] == "succeeded"


@pytest.mark.req("WE-08")
async def test_one_endpoint_per_worker_counts_what_is_undecided(api: Api) -> None:
    """subtle-points, Host API 10"""
    worker, _ = await served_worker(api)
    api.backend.hold("endpoints.attach")
    first = await api.create("WorkerEndpoint", "shop", {"worker": ref(worker)})
    assert first.status_code == 202
    assert await refusal(api, worker) == (409, "dependency_conflict")
    api.backend.release("endpoints.attach")
    uid = (await api.settled(first.json()["id"]))["resourceUid"]
    before = await api.resource(uid)
    assert await refusal(api, worker) == (409, "dependency_conflict")
    assert await api.resource(uid) == before
    another, _ = await served_worker(api, "x")
    assert (await endpoint(api, another, "other"))["status"] == "succeeded"
    await api.settled((await api.delete(uid, 1)).json()["id"])
    assert (await endpoint(api, worker, "next"))["status"] == "succeeded"


@pytest.mark.req("WE-08")
async def test_an_endpoint_that_failed_without_effect_makes_room_and_cannot_be_revived(api: Api) -> None:
    """subtle-points, Host API 10"""
    worker, _ = await served_worker(api)
    api.backend.fail("endpoints.attach", *[BackendUnavailable("away")] * 1000)
    first = (await api.create("WorkerEndpoint", "shop", {"worker": ref(worker)})).json()
    await reconciling(api, first["id"])
    assert await refusal(api, worker) == (409, "dependency_conflict")
    while await api.engine.settle(first["id"], Effect.NONE, "never sent") is None:
        await asyncio.sleep(0)
    api.backend.failures.clear()
    failed = await api.resource(first["resourceUid"])
    assert failed["phase"] == "error" and set(failed["output"]) == {"hostname", "url"}
    assert (await endpoint(api, worker, "second"))["status"] == "succeeded"
    revived = await api.update(first["resourceUid"], 1, {"worker": ref(worker)})
    assert (revived.status_code, revived.json()["code"]) == (409, "dependency_conflict")


@pytest.mark.req("WE-08", "WE-12", "HA-45")
@pytest.mark.parametrize("is_operator", [True, False])
async def test_an_endpoint_that_may_have_a_route_keeps_its_place(api: Api, is_operator: bool) -> None:
    worker, _ = await served_worker(api)
    errors = [BackendUnavailable("away")] * 1000 if is_operator else [BackendError("half done")]
    api.backend.fail("endpoints.attach", *errors)
    first = (await api.create("WorkerEndpoint", "shop", {"worker": ref(worker)})).json()
    while is_operator and await api.engine.settle(first["id"], Effect.PARTIAL, "seen by hand") is None:
        await asyncio.sleep(0)
    api.backend.failures.clear()
    failed = await api.settled(first["id"])
    assert (failed["status"], failed["effect"]) == ("failed", "partial")
    found = await api.resource(failed["resourceUid"])
    assert (found["phase"], set(found["output"])) == ("error", {"hostname", "url"})
    assert await refusal(api, worker) == (409, "dependency_conflict")
    assert (await api.update(found["uid"], 1, {"worker": ref(worker)})).json()["status"] == "succeeded"
    mended = await api.resource(found["uid"])
    assert (mended["output"], mended["observed"], mended["phase"]) == (found["output"], CONFIRMED, "idle")


@pytest.mark.req("WE-12", "WE-09", "HA-46")
async def test_an_address_that_is_not_confirmed_reconciles_at_the_same_address(api: Api) -> None:
    worker, _ = await served_worker(api)
    api.backend.tls_ready = None
    made = (await api.create("WorkerEndpoint", "shop", {"worker": ref(worker)})).json()
    found = await reconciling(api, made["id"])
    assert (found["effect"], found["error"]["code"]) == ("unknown", "backend_unavailable")
    output = (await api.resource(made["resourceUid"]))["output"]
    assert (await api.delete(made["resourceUid"], 1)).json()["code"] == "resource_busy"
    api.backend.tls_ready = True
    assert (await api.settled(made["id"]))["status"] == "succeeded"
    assert (await api.resource(made["resourceUid"]))["output"] == output
    assert api.backend.endpoints == {made["resourceUid"]: (worker, output["hostname"])}


@pytest.mark.req("WE-12")
async def test_a_lost_look_at_the_route_is_no_success(api: Api) -> None:
    worker, _ = await served_worker(api)
    api.backend.gateway_answers = False
    made = (await api.create("WorkerEndpoint", "shop", {"worker": ref(worker)})).json()
    await reconciling(api, made["id"])
    api.backend.gateway_answers = True
    assert (await api.settled(made["id"]))["status"] == "succeeded"


@pytest.mark.req("WE-14", "MW-01")
async def test_a_deletion_takes_the_route_alone_and_then_the_worker_may_go(api: Api) -> None:
    worker, deployment = await served_worker(api)
    uid = (await endpoint(api, worker))["resourceUid"]
    deployed = dict(api.backend.deployments)
    assert (await api.delete(worker, 1)).json()["code"] == "dependency_conflict"
    assert (await api.delete(uid, 1)).json()["status"] == "succeeded"
    assert (api.backend.endpoints, api.backend.deployments) == ({}, deployed)
    assert (await api.get(f"/resources/{uid}")).status_code in (404, 410)
    assert (await api.resource(deployment))["phase"] == "idle"
    version = (await api.resource(deployment))["spec"]["versions"][0]["workerVersion"]["resourceUid"]
    for other in (deployment, version, worker):
        assert (await api.delete(other, 1)).json()["status"] == "succeeded"


@pytest.mark.req("WE-14", "MW-01")
async def test_an_endpoint_alone_holds_its_worker(api: Api) -> None:
    worker, deployment = await served_worker(api)
    uid = (await endpoint(api, worker))["resourceUid"]
    version = (await api.resource(deployment))["spec"]["versions"][0]["workerVersion"]["resourceUid"]
    for other in (deployment, version):
        assert (await api.settled((await api.delete(other, 1)).json()["id"]))["status"] == "succeeded"
    refused = await api.delete(worker, 1)
    assert (refused.status_code, refused.json()["code"]) == (409, "dependency_conflict")
    api.backend.hold("endpoints.detach")
    pending = await api.delete(uid, 1)
    assert (await api.delete(worker, 1)).json()["code"] == "dependency_conflict"
    api.backend.release("endpoints.detach")
    await api.settled(pending.json()["id"])
    assert (await api.delete(worker, 1)).json()["status"] == "succeeded"


@pytest.mark.req("WE-12", "WE-14", "WE-08")
async def test_a_route_left_by_a_failed_deletion_is_shown_and_mended_either_way(api: Api) -> None:
    worker, _ = await served_worker(api)
    uid = (await endpoint(api, worker))["resourceUid"]
    before = await api.resource(uid)
    api.backend.fail("endpoints.detach", BackendError("half done"), BackendError("half done"))
    failed = (await api.delete(uid, 1)).json()
    assert (failed["status"], failed["effect"]) == ("failed", "partial")
    left = await api.resource(uid)
    assert (left["phase"], left["output"], left["observed"]) == ("error", before["output"], before["observed"])
    assert await refusal(api, worker) == (409, "dependency_conflict")
    assert (await api.update(uid, 2, {"worker": ref(worker)})).json()["status"] == "succeeded"
    assert (await api.resource(uid))["phase"] == "idle"
    assert (await api.delete(uid, 3)).json()["status"] == "failed"
    assert (await api.delete(uid, 4)).json()["status"] == "succeeded"
    assert api.backend.endpoints == {}
