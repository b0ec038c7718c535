"""StaticAssetBundle and Versions with assets in the Forms: what is accepted, observed, judged and in the way of what."""

from typing import Any

import pytest

from host.forms.static_asset_bundle import StaticAssetBundle
from host.model.errors import CallerError
from host.ports import AssetsRecord
from tests.host.api import Api, Json, deployment_spec, ref, serving

SPA = {"is_single_page": True}


def static(worker: str, bundle: str, **how: bool) -> Json:
    """The spec of a Version without code."""
    return {"worker": ref(worker), "handlers": [], "assets": serving(bundle, **how)}


async def coded(api: Api, worker: str, name: str, handlers: list[str], assets: Json, *targets: str) -> Json:
    """The spec of a Version with code and assets, and service bindings to the targets."""
    bundle = await api.made("WorkerBundle", f"{name}-code", {"artifact": api.backend.store_bundle(handlers, [], name)})
    bindings = [{"name": f"B{number}", "resource": ref(uid)} for number, uid in enumerate(targets)]
    spec = {"worker": ref(worker), "bundle": ref(bundle), "handlers": handlers, "serviceBindings": bindings}
    return {**spec, "assets": assets}


@pytest.mark.req("SA-01")
@pytest.mark.parametrize(
    "change",
    [
        {"sha256": "A" * 64},
        {"sha256": "a" * 63},
        {"x": 1},
        *({"url": url} for url in ("http://a.example/", "https://a.example/?", "https://u@a.example/", 7)),
        {"url": "https://a.example/" + "x" * 8192},
    ],
)
def test_a_spec_is_one_artifact(change: dict[str, Any]) -> None:
    good: Any = {"url": "https://a.example/m", "sha256": "a" * 64}
    assert StaticAssetBundle().parse({"artifact": good}) == StaticAssetBundle().parse({"artifact": dict(good)})
    specs: list[Any] = [{"artifact": {**good, **change}}, {}, {"artifact": good, "x": 1}]
    for bad in specs:
        with pytest.raises(CallerError, match="spec"):
            StaticAssetBundle().parse(bad)


@pytest.mark.req("SA-02", "SA-03", "SA-04", "SA-05")
async def test_the_observation_is_the_manifest_in_its_order_with_sizes_and_without_urls(api: Api) -> None:
    artifact = api.backend.store_assets({"b/index.html": b"12345", "a.css": b"", "B/index.html": b"6"})
    resource = await api.resource(await api.made("StaticAssetBundle", "a", {"artifact": artifact}))
    observed = resource["observed"]
    assert set(observed) == {"manifestSha256", "fileCount", "totalBytes", "files"}
    assert (observed["manifestSha256"], observed["fileCount"], observed["totalBytes"]) == (artifact["sha256"], 3, 6)
    assert [set(file) for file in observed["files"]] == [{"path", "sha256", "mediaType", "byteSize"}] * 3
    assert [(f["path"], f["mediaType"], f["byteSize"]) for f in observed["files"]] == [
        ("b/index.html", "text/x-test", 5),
        ("a.css", "text/x-test", 0),
        ("B/index.html", "text/x-test", 1),
    ]
    assert resource["output"] == {}


@pytest.mark.req("SA-05", "SA-11")
async def test_nothing_is_observed_before_the_last_byte_is_held(api: Api) -> None:
    artifact = api.backend.store_assets({"a": b"1", "b": b"2"})
    api.backend.hold("artifacts.hold")
    accepted = (await api.create("StaticAssetBundle", "a", {"artifact": artifact})).json()
    assert (await api.resource(accepted["resourceUid"]))["observed"] == {}
    api.backend.release("artifacts.hold")
    assert (await api.settled(accepted["id"]))["status"] == "succeeded"
    assert (await api.resource(accepted["resourceUid"]))["observed"]["fileCount"] == 2


@pytest.mark.req("SA-06", "SA-11")
@pytest.mark.parametrize("lost", ["manifest", "file"])
async def test_a_bundle_that_cannot_be_had_whole_fails_and_holds_nothing(api: Api, lost: str) -> None:
    artifact = api.backend.store_assets({"a": b"1"})
    for digest in list(api.backend.bytes_of):
        if (digest == artifact["sha256"]) is (lost == "manifest"):
            del api.backend.bytes_of[digest]
    operation = (await api.create("StaticAssetBundle", "a", {"artifact": artifact})).json()
    assert (operation["status"], operation["effect"]) == ("failed", "none")
    assert operation["error"]["code"] == "artifact_refused"
    assert "https" not in operation["error"]["message"]
    assert (await api.resource(operation["resourceUid"]))["observed"] == {}
    assert not api.backend.held_by


@pytest.mark.req("SA-02", "SA-06")
async def test_the_manifest_of_a_worker_bundle_is_none_of_assets(api: Api) -> None:
    operation = (await api.create("StaticAssetBundle", "a", {"artifact": api.backend.store_bundle([], [])})).json()
    assert (operation["status"], operation["error"]["code"]) == ("failed", "manifest_invalid")


@pytest.mark.req("SA-09")
@pytest.mark.parametrize("inputs", [{}, {"A": "b"}])
async def test_private_inputs_are_refused(api: Api, inputs: Json) -> None:
    artifact = api.backend.store_assets({"a": b""})
    refused = await api.create("StaticAssetBundle", "a", {"artifact": artifact}, privateInputs=inputs)
    assert (refused.status_code, refused.json()["code"]) == (422, "capability_required")


@pytest.mark.req("SA-01", "SA-10")
async def test_an_equal_update_checks_the_held_bytes_and_another_is_refused(api: Api) -> None:
    artifact = api.backend.store_assets({"a": b"1"})
    uid = await api.made("StaticAssetBundle", "a", {"artifact": artifact})
    before = (await api.resource(uid))["observed"]
    for change in ({"url": "https://a.example/other"}, {"sha256": "0" * 64}):
        refused = await api.update(uid, 1, {"artifact": {**artifact, **change}})
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid_spec")
    holds = api.backend.calls.count(("artifacts.hold", uid))
    assert (await api.update(uid, 1, {"artifact": artifact})).json()["status"] == "succeeded"
    assert (await api.resource(uid))["observed"] == before
    assert api.backend.calls.count(("artifacts.hold", uid)) == holds, "an update fetches nothing"
    del api.backend.bytes_of[before["files"][0]["sha256"]]
    failed = (await api.update(uid, 2, {"artifact": artifact})).json()
    assert (failed["status"], failed["error"]["code"]) == ("failed", "artifact_refused")


@pytest.mark.req("SA-08", "WV-18")
async def test_a_bundle_stays_while_a_live_version_refers_to_it_weighted_or_not(api: Api) -> None:
    worker, bundle = await api.worker(), await api.assets("a", "index.html")
    version = await api.made("WorkerVersion", "v", static(worker, bundle))
    for uid in (bundle, worker):
        refused = await api.delete(uid, 1)
        assert (refused.status_code, refused.json()["code"]) == (409, "dependency_conflict")
    assert bundle in api.backend.held_by
    for uid in (version, bundle, worker):
        assert (await api.delete(uid, 1)).json()["status"] == "succeeded"
    assert not api.backend.held_by


@pytest.mark.req("SA-08", "WV-18")
async def test_a_version_that_is_not_settled_yet_holds_its_bundle_too(api: Api) -> None:
    worker, bundle = await api.worker(), await api.assets("a", "index.html")
    api.backend.hold("versions.install")
    accepted = (await api.create("WorkerVersion", "v", static(worker, bundle))).json()
    assert (await api.delete(bundle, 1)).json()["code"] == "dependency_conflict"
    api.backend.release("versions.install")
    assert (await api.settled(accepted["id"]))["status"] == "succeeded"


@pytest.mark.req("WV-02", "WV-08", "WV-17")
async def test_a_version_without_a_bundle_loads_no_code_and_says_nothing_of_one(api: Api) -> None:
    worker, bundle = await api.worker(), await api.assets("a", "index.html")
    version = await api.made("WorkerVersion", "v", static(worker, bundle))
    assert (await api.resource(version))["observed"] == {"ready": True, "resolvedBindings": True}
    record = api.backend.versions[version]
    manifest = (await api.resource(bundle))["observed"]["manifestSha256"]
    assert (record.code_digest, record.handlers, record.classes) == (None, (), ())
    assert record.assets == AssetsRecord(manifest, runs_worker_first=False, falls_back=False)
    assert "code.verify" not in {call for call, _ in api.backend.calls}


@pytest.mark.req("WV-08", "WV-16", "SA-12")
async def test_a_version_with_code_and_assets_is_proven_in_both(api: Api) -> None:
    worker, bundle = await api.worker(), await api.assets("a", "index.html")
    spec = await coded(api, worker, "v", ["fetch"], serving(bundle, runs_worker_first=True, is_single_page=True))
    version = await api.made("WorkerVersion", "v", spec)
    assert (await api.resource(version))["observed"]["bundleVerified"] is True
    record = api.backend.versions[version]
    assert record.assets is not None
    assert (record.assets.runs_worker_first, record.assets.falls_back, record.bindings) == (True, True, ())


@pytest.mark.req("WV-08")
@pytest.mark.parametrize("lost", ["manifest", "file"])
async def test_a_version_is_not_ready_while_a_byte_is_missing(api: Api, lost: str) -> None:
    worker, bundle = await api.worker(), await api.assets("a", "index.html")
    observed = (await api.resource(bundle))["observed"]
    digest = observed["manifestSha256"] if lost == "manifest" else observed["files"][0]["sha256"]
    kept = api.backend.bytes_of.pop(digest)
    spec = static(worker, bundle)
    operation = (await api.create("WorkerVersion", "v", spec)).json()
    assert (operation["status"], operation["error"]["code"]) == ("failed", "artifact_refused")
    assert not api.backend.versions
    api.backend.store(kept)
    assert (await api.update(operation["resourceUid"], 1, spec)).json()["status"] == "succeeded"


@pytest.mark.req("WV-11", "WV-05")
async def test_assets_refer_to_a_static_asset_bundle_and_to_nothing_else(api: Api) -> None:
    worker = await api.worker()
    code = await api.made("WorkerBundle", "code", {"artifact": api.backend.store_bundle([], [])})
    for uid in (worker, code, "nobody"):
        refused = await api.create("WorkerVersion", "v", static(worker, uid))
        assert (refused.status_code, refused.json()["code"]) == (409, "dependency_conflict")
    assets = await api.assets("a", "index.html")
    refused = await api.create("WorkerVersion", "v", {"worker": ref(worker), "bundle": ref(assets), "handlers": []})
    assert (refused.status_code, refused.json()["code"]) == (409, "dependency_conflict")


@pytest.mark.req("WV-13")
async def test_a_single_page_without_its_page_is_refused_before_it_is_stored(api: Api) -> None:
    worker = await api.worker()
    bare = await api.assets("bare", "a/index.html", "Index.html", "index.htm")
    refused = await api.create("WorkerVersion", "v", static(worker, bare, **SPA))
    assert (refused.status_code, refused.json()["code"]) == (409, "dependency_conflict")
    assert (await api.get("/resources", name="v")).json()["items"] == []
    await api.made("WorkerVersion", "v", static(worker, bare))
    page = await api.assets("page", "a", "index.html")
    await api.made("WorkerVersion", "v2", static(worker, page, **SPA))


@pytest.mark.req("WV-13", "HA-37")
async def test_a_single_page_is_not_stored_before_its_bundle_is_known(api: Api) -> None:
    worker = await api.worker()
    api.backend.hold("artifacts.hold")
    artifact = api.backend.store_assets({"index.html": b""})
    pending = (await api.create("StaticAssetBundle", "a", {"artifact": artifact})).json()
    spec = static(worker, pending["resourceUid"], **SPA)
    busy = await api.create("WorkerVersion", "v", spec)
    assert (busy.status_code, busy.json()["code"]) == (409, "resource_busy")
    waiting = (await api.create("WorkerVersion", "other", static(worker, pending["resourceUid"]))).json()
    assert waiting["status"] == "queued", "without a fallback the Version may wait for its bundle"
    api.backend.release("artifacts.hold")
    assert (await api.settled(waiting["id"]))["status"] == "succeeded"
    await api.made("WorkerVersion", "v", spec)


@pytest.mark.req("WD-05", "WD-09", "MW-20", "WV-16")
async def test_verified_assets_answer_service_calls_as_well_as_fetch_does(api: Api) -> None:
    front, back = await api.worker("front"), await api.worker("back")
    bundle = await api.assets("a", "index.html")
    served = await api.made("WorkerVersion", "served", static(back, bundle))
    silent = await api.version(back, "silent", handlers=())
    deployment = await api.made("WorkerDeployment", "d", deployment_spec(back, (served, 10000)))
    caller = await coded(api, front, "caller", ["fetch"], serving(bundle), back)
    await api.made("WorkerVersion", "caller", caller)
    refused = await api.update(deployment, 1, deployment_spec(back, (silent, 10000)))
    assert (refused.status_code, refused.json()["code"]) == (409, "dependency_conflict")
    both = await api.made("WorkerVersion", "both", await coded(api, back, "both", [], serving(bundle)))
    updated = await api.update(deployment, 1, deployment_spec(back, (served, 1), (both, 9999)))
    assert updated.json()["status"] == "succeeded"


@pytest.mark.req("WE-07", "WD-05", "WV-16")
async def test_verified_assets_answer_at_an_endpoint_as_well_as_fetch_does(api: Api) -> None:
    worker, bundle = await api.worker(), await api.assets("a", "index.html")
    served = await api.made("WorkerVersion", "served", static(worker, bundle))
    silent = await api.version(worker, "silent", handlers=())
    deployment = await api.made("WorkerDeployment", "d", deployment_spec(worker, (served, 10000)))
    await api.made("WorkerEndpoint", "e", {"worker": ref(worker)})
    refused = await api.update(deployment, 1, deployment_spec(worker, (served, 5000), (silent, 5000)))
    assert (refused.status_code, refused.json()["code"]) == (409, "dependency_conflict")


@pytest.mark.req("WV-17", "WD-05", "DW-03")
async def test_a_version_without_code_is_never_selected_where_a_class_is_needed(api: Api) -> None:
    worker, bundle = await api.worker(), await api.assets("a", "index.html")
    version = await api.made("WorkerVersion", "v", static(worker, bundle))
    workflow = await api.made("DurableWorkflow", "flow", {"worker": ref(worker), "className": "C"})
    refused = await api.create("WorkerDeployment", "d", deployment_spec(worker, (version, 10000)))
    assert (refused.status_code, refused.json()["code"]) == (409, "dependency_conflict")
    assert (await api.delete(workflow, 1)).json()["status"] == "succeeded"
    await api.made("WorkerDeployment", "d", deployment_spec(worker, (version, 10000)))
    refused = await api.create("DurableWorkflow", "flow", {"worker": ref(worker), "className": "C"})
    assert (refused.status_code, refused.json()["code"]) == (409, "dependency_conflict")
