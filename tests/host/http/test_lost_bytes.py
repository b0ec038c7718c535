"""Held bytes of a Version that are lost: it is not ready, nothing new is put on it, and their return shows."""

import asyncio
import signal
from pathlib import Path

import pytest

from host.engine.losses import AFTER_WITHHOLD
from tests.host.api import Api, Json, deployment_spec, form_url, ref, running_api, serving
from tests.host.backend import FakeBackend
from tests.host.crash.lives import durable_backend, fork

CONCERNED = ("version", "deployment", "worker")


async def deploy(api: Api) -> dict[str, str]:
    """A Version with code and assets in force, its Worker's endpoint, and a Version of other bundles beside it."""
    worker = await api.worker()
    plain = await api.version(worker, "plain")
    coded = await api.version(worker, "coded")
    spec = (await api.resource(coded))["spec"]
    assets = await api.assets("files", "index.html")
    version = await api.made("WorkerVersion", "v", {**spec, "assets": serving(assets)})
    deployment = await api.made("WorkerDeployment", "d", deployment_spec(worker, (version, 10000)))
    endpoint = await api.made("WorkerEndpoint", "e", {"worker": ref(worker)})
    bundle = spec["bundle"]["resourceUid"]
    return {
        "worker": worker,
        "plain": plain,
        "bundle": bundle,
        "assets": assets,
        "version": version,
        "deployment": deployment,
        "endpoint": endpoint,
    }


async def read(api: Api, made: dict[str, str]) -> dict[str, Json]:
    return {name: await api.resource(uid) for name, uid in made.items()}


def lose(backend: FakeBackend, bundle: Json) -> dict[str, bytes]:
    """Take the last file of a bundle away."""
    digest = bundle["observed"]["files"][-1]["sha256"]
    return {digest: backend.bytes_of.pop(digest)}


@pytest.mark.req("WD-08", "WB-11", "WV-08", "WD-06", "WE-06", "MW-01")
@pytest.mark.parametrize("what", ["bundle", "assets"])
async def test_lost_bytes_show_at_the_next_start_and_their_return_at_the_one_after(tmp_path: Path, what: str) -> None:
    path, backend = tmp_path / "control.sqlite", FakeBackend()
    async with running_api(path, backend) as api:
        made = await deploy(api)
        before, clock = await read(api, made), api.clock
    clock.move_to(clock.now_ms() + 60_000)
    gone = lose(backend, before[what])
    async with running_api(path, backend, clock) as api:
        after = await read(api, made)
    assert {after[name]["observed"]["ready"] for name in CONCERNED} == {False}
    assert after["endpoint"]["observed"]["activeDeploymentRouteReady"] is False
    assert made["version"] in backend.withheld
    assert made["plain"] not in backend.withheld
    whole = {"ready": False, "resolvedBindings": True}
    assert after["version"]["observed"] == (whole if what == "bundle" else {**whole, "bundleVerified": True})
    for name in CONCERNED:
        assert after[name]["observedAt"] > before[name]["observedAt"]
        assert after[name]["observedGeneration"] == before[name]["observedGeneration"]
    assert [after[name] for name in ("plain", "bundle", "assets")] == [
        before[name] for name in ("plain", "bundle", "assets")
    ], "what the custody took in stays described"
    backend.bytes_of |= gone
    async with running_api(path, backend, clock) as api:
        again = await read(api, made)
    assert [again[name]["observed"] for name in made] == [before[name]["observed"] for name in made]
    assert backend.withheld == frozenset()


@pytest.mark.req("WD-08", "WD-05", "WB-11")
async def test_nothing_new_is_put_on_a_version_without_its_bytes(tmp_path: Path) -> None:
    path, backend = tmp_path / "control.sqlite", FakeBackend()
    async with running_api(path, backend) as api:
        made = await deploy(api)
        lose(backend, await api.resource(made["assets"]))
        await api.engine.look_for_losses()
        half = deployment_spec(made["worker"], (made["version"], 5000), (made["plain"], 5000))
        refused = await api.update(made["deployment"], 1, half)
        assert (refused.status_code, refused.json()["code"]) == (409, "dependency_conflict")
        away = await api.update(made["deployment"], 1, deployment_spec(made["worker"], (made["plain"], 10000)))
        assert (await api.settled(away.json()["id"]))["status"] == "succeeded"
        shown = await read(api, made)
        assert shown["deployment"]["observed"]["ready"] is True
        assert shown["endpoint"]["observed"]["activeDeploymentRouteReady"] is True
        assert shown["version"]["observed"]["ready"] is False


@pytest.mark.req("WB-11", "WV-08", "WB-10", "HA-38")
@pytest.mark.parametrize("asked", ["version", "bundle", "assets"])
async def test_a_put_that_meets_lost_bytes_fails_and_shows_it_and_one_that_meets_them_again_mends(
    api: Api, asked: str
) -> None:
    made = await deploy(api)
    lost = "assets" if asked == "assets" else "bundle"
    gone = lose(api.backend, await api.resource(made[lost]))
    spec = (await api.resource(made[asked]))["spec"]
    failed = await api.settled((await api.update(made[asked], 1, spec)).json()["id"])
    assert (failed["status"], failed["effect"], failed["error"]["code"]) == ("failed", "none", "artifact_refused")
    shown = await read(api, made)
    assert {shown[name]["observed"]["ready"] for name in CONCERNED} == {False}
    assert ("bundleVerified" in shown["version"]["observed"]) is (lost == "assets")
    api.backend.bytes_of |= gone
    mended = await api.settled((await api.update(made[asked], 2, spec)).json()["id"])
    assert mended["status"] == "succeeded"
    shown = await read(api, made)
    assert {shown[name]["observed"]["ready"] for name in CONCERNED} == {True}
    assert shown["version"]["observed"]["bundleVerified"] is True
    assert shown["endpoint"]["observed"]["activeDeploymentRouteReady"] is True


@pytest.mark.req("WV-08", "WB-11")
async def test_a_new_version_of_a_bundle_that_is_not_whole_is_no_success(api: Api) -> None:
    made = await deploy(api)
    lose(api.backend, await api.resource(made["bundle"]))
    spec = (await api.resource(made["version"]))["spec"]
    answer = await api.create("WorkerVersion", "late", spec)
    failed = await api.settled(answer.json()["id"])
    assert (failed["status"], failed["error"]["code"]) == ("failed", "artifact_refused")


async def lose_and_look(api: Api) -> Json:
    made = await deploy(api)
    lose(api.backend, await api.resource(made["assets"]))
    await api.engine.look_for_losses()
    return {}


@pytest.mark.req("WD-08", "HA-81")
def test_a_kill_between_the_runtime_and_the_records_leaves_them_to_agree_at_the_next_start(tmp_path: Path) -> None:
    ended, _ = fork(tmp_path, AFTER_WITHHOLD, lose_and_look)
    assert ended == -signal.SIGKILL
    asyncio.run(assert_seen(tmp_path))


async def assert_seen(directory: Path) -> None:
    backend = durable_backend(directory)
    path = directory / "control.sqlite"
    async with running_api(path, backend) as api:
        [bundle] = (await api.get("/resources", form=form_url("StaticAssetBundle"))).json()["items"]
        digests = {each["sha256"] for each in bundle["observed"]["files"]}
        assert not digests & backend.bytes_of.keys()
    backend.held_by[bundle["uid"]] = digests
    async with running_api(path, backend) as api:
        [deployment] = (await api.get("/resources", form=form_url("WorkerDeployment"))).json()["items"]
        assert deployment["observed"]["ready"] is False
    assert len(backend.withheld) == 1
