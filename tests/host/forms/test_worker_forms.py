"""What the Worker Forms say and do by themselves: observations, private inputs, immutability, what a deletion leaves."""

import pytest

from tests.host.api import Api, deployment_spec, ref


@pytest.mark.req("MW-01", "MW-02")
async def test_a_worker_is_a_name_without_address_code_or_readiness(api: Api) -> None:
    worker = await api.worker("shop")
    shown = await api.resource(worker)
    assert (shown["spec"], shown["output"]) == ({}, {})
    assert shown["observed"] == {"activeDeploymentUid": None, "ready": False}
    assert {call for call, _ in api.backend.calls} == {"workers.register"}
    assert (await api.create("ModuleWorker", "other", {"url": "https://a.example/"})).status_code == 422
    named = await api.create("ModuleWorker", "other", {}, privateInputs={"KEY": "v"})
    assert (named.status_code, named.json()["code"]) == (422, "capability_required")


@pytest.mark.req("MW-01", "WD-06", "WD-07")
async def test_the_observation_of_a_worker_follows_its_deployment(api: Api) -> None:
    worker = await api.worker()
    version = await api.version(worker, "v")
    assert (await api.resource(version))["observed"] == {
        "ready": True,
        "resolvedBindings": True,
        "bundleVerified": True,
    }
    deployment = await api.made("WorkerDeployment", "d", deployment_spec(worker, (version, 10000)))
    assert (await api.resource(worker))["observed"] == {"activeDeploymentUid": deployment, "ready": True}
    assert (await api.resource(deployment))["observed"] == {
        "ready": True,
        "active": True,
        "selectedVersions": [{"resourceUid": version, "weight": 10000}],
    }
    await api.delete(deployment, 1)
    assert (await api.resource(worker))["observed"] == {"activeDeploymentUid": None, "ready": False}


@pytest.mark.req("MW-03")
async def test_the_deletion_of_a_worker_leaves_everything_else(api: Api) -> None:
    gone, kept = await api.worker("gone"), await api.worker("kept")
    version = await api.version(kept, "v")
    deployment = await api.made("WorkerDeployment", "d", deployment_spec(kept, (version, 10000)))
    calls = len(api.backend.calls)
    assert (await api.delete(gone, 1)).status_code == 200
    assert api.backend.calls[calls:] == [("workers.retire", gone)]
    assert set(api.backend.workers) == {kept}
    assert set(api.backend.versions) == {version}
    assert api.backend.deployments[kept][0] == deployment


@pytest.mark.req("WB-09", "WB-01", "WB-10", "HA-29")
async def test_a_bundle_has_no_private_inputs_and_is_immutable(api: Api) -> None:
    spec = {"artifact": api.backend.store_bundle(["fetch"], [], "one")}
    for inputs in ({"TOKEN": "v"}, {}):
        named = await api.create("WorkerBundle", "b", spec, privateInputs=inputs)
        assert (named.status_code, named.json()["code"]) == (422, "capability_required")
    bundle = await api.made("WorkerBundle", "b", spec)
    before = await api.resource(bundle)
    other = {"artifact": api.backend.store_bundle(["fetch"], [], "two")}
    refused = await api.update(bundle, 1, other)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_spec")
    same = await api.update(bundle, 1, spec)
    assert (await api.settled(same.json()["id"]))["status"] == "succeeded"
    assert (await api.resource(bundle))["observed"] == before["observed"]


@pytest.mark.req("WB-02", "WB-05")
async def test_an_observed_bundle_has_exactly_its_members_in_manifest_order_and_no_url(api: Api) -> None:
    artifact = api.backend.store_bundle(["fetch"], [], "one")
    bundle = await api.made("WorkerBundle", "b", {"artifact": artifact})
    observed = (await api.resource(bundle))["observed"]
    assert set(observed) == {"manifestSha256", "fileCount", "totalBytes", "entrypoint", "files"}
    assert (observed["manifestSha256"], observed["entrypoint"]) == (artifact["sha256"], "index.js")
    [file] = observed["files"]
    assert set(file) == {"path", "sha256", "mediaType", "byteSize"}
    assert (observed["fileCount"], observed["totalBytes"]) == (1, file["byteSize"])
    assert "https:" not in str(observed)


@pytest.mark.req("WV-17", "WD-05", "WD-09")
async def test_a_version_may_come_before_the_workflow_whose_class_it_lacks_but_is_not_selected(api: Api) -> None:
    worker = await api.worker()
    early = await api.version(worker, "early", classes=())
    await api.made("DurableWorkflow", "f", {"worker": ref(worker), "className": "Order"})
    refused = await api.create("WorkerDeployment", "d", deployment_spec(worker, (early, 10000)))
    assert (refused.status_code, refused.json()["code"]) == (409, "dependency_conflict")
    late = await api.version(worker, "late", classes=("Order",))
    mixed = await api.create("WorkerDeployment", "d", deployment_spec(worker, (late, 9999), (early, 1)))
    assert (mixed.status_code, mixed.json()["code"]) == (409, "dependency_conflict")
    await api.made("WorkerDeployment", "d", deployment_spec(worker, (late, 10000)))


@pytest.mark.req("MW-10", "WV-08")
@pytest.mark.parametrize(
    ("declared", "exported"),
    [(["fetch"], []), ([], ["fetch"]), (["fetch"], ["fetch", "queue"]), (["scheduled"], ["queue"])],
)
async def test_a_version_whose_handlers_differ_from_its_exports_is_never_ready(
    api: Api, declared: list[str], exported: list[str]
) -> None:
    worker = await api.worker()
    bundle = await api.made("WorkerBundle", "b", {"artifact": api.backend.store_bundle(exported, [])})
    answer = await api.create(
        "WorkerVersion", "v", {"worker": ref(worker), "bundle": ref(bundle), "handlers": declared}
    )
    assert (await api.settled(answer.json()["id"]))["status"] == "failed"
    assert "ready" not in (await api.resource(answer.json()["resourceUid"]))["observed"]
    assert api.backend.versions == {}


@pytest.mark.req("WV-06", "WV-05")
async def test_a_version_is_replaced_by_an_equal_spec_only(api: Api) -> None:
    worker = await api.worker()
    version = await api.version(worker, "v", handlers=("fetch", "queue"))
    spec = (await api.resource(version))["spec"]
    turned = {**spec, "handlers": ["queue", "fetch"], "vars": {}}
    assert (await api.settled((await api.update(version, 1, turned)).json()["id"]))["status"] == "succeeded"
    refused = await api.update(version, 2, {**spec, "vars": {"A": 1}})
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_spec")


@pytest.mark.req("WV-09")
async def test_a_version_that_still_runs_is_not_deleted(api: Api) -> None:
    version = await api.version(await api.worker(), "v")
    api.backend.executing.add(version)
    refused = await api.delete(version, 1)
    assert (refused.status_code, refused.json()["code"]) == (409, "dependency_conflict")
    assert version in api.backend.versions
    api.backend.executing.discard(version)
    assert (await api.delete(version, 1)).status_code == 200


@pytest.mark.req("WV-11")
@pytest.mark.parametrize(
    "member", ["kvBindings", "sqliteBindings", "bucketBindings", "queueProducerBindings", "actorBindings"]
)
async def test_a_binding_kind_that_is_not_built_is_refused_as_a_reference_that_cannot_be_used(
    api: Api, member: str
) -> None:
    worker = await api.worker()
    bundle = await api.made("WorkerBundle", "b", {"artifact": api.backend.store_bundle(["fetch"], [])})
    spec = {
        "worker": ref(worker),
        "bundle": ref(bundle),
        "handlers": ["fetch"],
        member: [{"name": "X", "resource": ref("u")}],
    }
    refused = await api.create("WorkerVersion", "v", spec)
    assert (refused.status_code, refused.json()["code"]) == (409, "dependency_conflict")
    assert member in refused.json()["detail"] and "not built" in refused.json()["detail"]


@pytest.mark.req("WD-01")
async def test_the_worker_of_a_deployment_is_never_changed(api: Api) -> None:
    worker, other = await api.worker("one"), await api.worker("two")
    version, foreign = await api.version(worker, "v"), await api.version(other, "w")
    deployment = await api.made("WorkerDeployment", "d", deployment_spec(worker, (version, 10000)))
    refused = await api.update(deployment, 1, deployment_spec(other, (foreign, 10000)))
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_spec")
