"""Service bindings in the Forms: accepted, judged against weights both ways, and in the way of deletions."""

import pytest

from tests.host.api import Api, Json, deployment_spec, ref


async def version(api: Api, worker: str, name: str, handlers: list[str], *targets: str) -> Json:
    """The Operation of a new Version with service bindings to the targets."""
    bundle = await api.made(
        "WorkerBundle", f"{name}-bundle", {"artifact": api.backend.store_bundle(handlers, [], name)}
    )
    bindings = [{"name": f"B{number}", "resource": ref(uid)} for number, uid in enumerate(targets)]
    spec = {"worker": ref(worker), "bundle": ref(bundle), "handlers": handlers, "serviceBindings": bindings}
    answer = await api.create("WorkerVersion", name, spec)
    return dict(answer.json())


@pytest.mark.req("MW-20", "WV-11")
async def test_a_version_may_bind_a_worker_twice_and_its_own(api: Api) -> None:
    front, back = await api.worker("front"), await api.worker("back")
    made = await version(api, front, "v", ["fetch"], back, back, front)
    assert (await api.settled(made["id"]))["status"] == "succeeded"
    record = api.backend.versions[made["resourceUid"]]
    assert [(b.name, b.kind, b.target_uid) for b in record.bindings] == [
        ("B0", "service", back),
        ("B1", "service", back),
        ("B2", "service", front),
    ]


@pytest.mark.req("WV-11", "WV-05")
async def test_a_service_binding_names_nothing_but_a_worker(api: Api) -> None:
    front = await api.worker("front")
    other = await version(api, front, "other", ["fetch"])
    refused = await version(api, front, "v", ["fetch"], other["resourceUid"])
    assert (refused["status"], refused["code"]) == (409, "dependency_conflict"), refused


@pytest.mark.req("MW-01", "WV-18")
async def test_a_worker_stays_while_a_version_of_another_binds_it(api: Api) -> None:
    front, back = await api.worker("front"), await api.worker("back")
    made = await version(api, front, "v", ["fetch"], back)
    refused = await api.delete(back, 1)
    assert (refused.status_code, refused.json()["code"]) == (409, "dependency_conflict")
    assert (await api.delete(made["resourceUid"], 1)).status_code == 200
    assert (await api.delete(back, 1)).status_code == 200


@pytest.mark.req("WD-05", "WD-09")
async def test_weights_without_fetch_are_refused_while_a_service_binding_points_at_the_worker(api: Api) -> None:
    front, back = await api.worker("front"), await api.worker("back")
    caller = await version(api, front, "v", ["fetch"], back)
    silent = await version(api, back, "silent", [])
    spec = deployment_spec(back, (silent["resourceUid"], 10000))
    refused = await api.create("WorkerDeployment", "d", spec)
    assert (refused.status_code, refused.json()["code"]) == (409, "dependency_conflict")
    await api.delete(caller["resourceUid"], 1)
    assert (await api.create("WorkerDeployment", "d", spec)).status_code == 200


@pytest.mark.req("WD-05", "WD-09")
async def test_a_service_binding_is_refused_while_weights_in_force_cannot_serve_it(api: Api) -> None:
    front, back = await api.worker("front"), await api.worker("back")
    silent = await version(api, back, "silent", [])
    deployment = await api.made("WorkerDeployment", "d", deployment_spec(back, (silent["resourceUid"], 10000)))
    refused = await version(api, front, "v", ["fetch"], back)
    assert (refused["status"], refused["code"]) == (409, "dependency_conflict")
    good = await version(api, back, "good", ["fetch"])
    await api.update(deployment, 1, deployment_spec(back, (good["resourceUid"], 10000)))
    made = await version(api, front, "v2", ["fetch"], back)
    assert (await api.settled(made["id"]))["status"] == "succeeded"


@pytest.mark.req("WD-09")
async def test_a_version_found_without_fetch_after_acceptance_is_not_activated(api: Api) -> None:
    front, back = await api.worker("front"), await api.worker("back")
    api.backend.hold("code.verify")
    pending = await version(api, back, "pending", ["fetch"])
    deployment = await api.create("WorkerDeployment", "d", deployment_spec(back, (pending["resourceUid"], 10000)))
    assert deployment.status_code == 202
    busy = await version(api, front, "v", ["fetch"], back)
    assert (busy["status"], busy["code"]) == (409, "resource_busy")
    api.backend.release("code.verify")
    assert (await api.settled(deployment.json()["id"]))["status"] == "succeeded"
