"""A Version that has lost its secrets: no longer ready, nothing new is put on it, and nobody guesses at them."""

import asyncio
import signal
from pathlib import Path

import pytest

from host.engine.executor import BEFORE_CATCH_UP
from host.ports import BackendError
from tests.host.api import Api, Json, deployment_spec, ref, running_api
from tests.host.backend import FakeBackend
from tests.host.crash.lives import durable_backend, fork

SECRETS = {"TOKEN": "correct horse"}


async def deploy(api: Api) -> dict[str, str]:
    """A Version with a secret and one without, the first in force, and a Workflow of their Worker."""
    worker = await api.worker()
    bundle = await api.made("WorkerBundle", "b", {"artifact": api.backend.store_bundle([], ["C"])})
    spec = {"worker": ref(worker), "bundle": ref(bundle), "handlers": []}
    plain = await api.made("WorkerVersion", "plain", spec)
    secret = {**spec, "requiredSensitiveVars": ["TOKEN"]}
    made = (await api.create("WorkerVersion", "secret", secret, privateInputs=SECRETS)).json()
    version = str((await api.settled(made["id"]))["resourceUid"])
    deployment = await api.made("WorkerDeployment", "d", deployment_spec(worker, (version, 10000)))
    workflow = await api.made("DurableWorkflow", "f", {"worker": ref(worker), "className": "C"})
    return {
        "worker": worker,
        "plain": plain,
        "version": version,
        "deployment": deployment,
        "workflow": workflow,
        "bundle": bundle,
    }


CONCERNED = ("version", "deployment", "worker", "workflow")


async def read(api: Api, made: dict[str, str]) -> dict[str, Json]:
    return {name: await api.resource(uid) for name, uid in made.items()}


def readiness(shown: dict[str, Json]) -> set[bool]:
    return {shown[name]["observed"]["ready"] for name in CONCERNED}


@pytest.mark.req("WV-12", "WD-08", "WV-08", "WD-06", "MW-01", "HA-38")
async def test_a_loss_shows_after_the_next_start_and_ends_with_it(tmp_path: Path) -> None:
    path, backend = tmp_path / "control.sqlite", FakeBackend()
    async with running_api(path, backend) as api:
        made = await deploy(api)
        before = await read(api, made)
        clock = api.clock
    assert readiness(before) == {True}

    clock.move_to(clock.now_ms() + 60_000)
    backend.lost.add(made["version"])
    async with running_api(path, backend, clock) as api:
        after = await read(api, made)
    assert readiness(after) == {False}
    for name in CONCERNED:
        assert after[name]["observedAt"] > before[name]["observedAt"]
        rest = {**after[name], "observed": {**after[name]["observed"], "ready": True}}
        assert {**rest, "observedAt": before[name]["observedAt"]} == before[name], "nothing else has changed"
    assert (after["plain"], after["bundle"]) == (before["plain"], before["bundle"])

    async with running_api(path, backend, clock) as api:
        clock.move_to(clock.now_ms() + 60_000)
        assert await read(api, made) == after, "the next start finds nothing new"
    backend.lost.clear()
    async with running_api(path, backend, clock) as api:
        assert readiness(await read(api, made)) == {True}, "the key was restored"


@pytest.mark.req("WD-08", "WD-05", "WV-12")
async def test_nothing_new_is_put_on_a_version_without_its_secrets(tmp_path: Path) -> None:
    path, backend = tmp_path / "control.sqlite", FakeBackend()
    async with running_api(path, backend) as api:
        made = await deploy(api)
    backend.lost.add(made["version"])
    async with running_api(path, backend) as api:
        half = deployment_spec(made["worker"], (made["version"], 5000), (made["plain"], 5000))
        refused = await api.update(made["deployment"], 1, half)
        assert (refused.status_code, refused.json()["code"]) == (409, "dependency_conflict")
        away = await api.update(made["deployment"], 1, deployment_spec(made["worker"], (made["plain"], 10000)))
        assert (await api.settled(away.json()["id"]))["status"] == "succeeded"
        shown = await read(api, made)
        assert {shown[name]["observed"]["ready"] for name in ("deployment", "worker", "workflow")} == {True}
        assert shown["version"]["observed"]["ready"] is False
        gone = await api.delete(made["version"], 1)
        assert (await api.settled(gone.json()["id"]))["status"] == "succeeded"


@pytest.mark.req("WD-08", "WV-12", "HA-38")
async def test_a_loss_that_an_operation_meets_shows_at_once(tmp_path: Path) -> None:
    path, backend = tmp_path / "control.sqlite", FakeBackend()
    async with running_api(path, backend) as api:
        made = await deploy(api)
        backend.lost.add(made["version"])
        spec = (await api.resource(made["version"]))["spec"]
        kept = await api.update(made["version"], 1, spec)
        failed = await api.settled(kept.json()["id"])
        assert (failed["status"], failed["effect"]) == ("failed", "none")
        assert failed["error"]["code"] == "private_inputs_lost"
        shown = await read(api, made)
        assert readiness(shown) == {False}
        version = shown["version"]
        assert (version["phase"], version["generation"], version["observedGeneration"]) == ("error", 2, 1)


@pytest.mark.req("WD-08", "WD-05", "WD-09")
async def test_a_loss_after_acceptance_keeps_the_weights_in_force(tmp_path: Path) -> None:
    path, backend = tmp_path / "control.sqlite", FakeBackend()
    async with running_api(path, backend) as api:
        made = await deploy(api)
        away = await api.update(made["deployment"], 1, deployment_spec(made["worker"], (made["plain"], 10000)))
        await api.settled(away.json()["id"])
        back = deployment_spec(made["worker"], (made["version"], 10000))
        api.backend.hold("deployments.activate")
        accepted = await api.update(made["deployment"], 2, back)
        assert accepted.status_code == 202
    backend.lost.add(made["version"])
    backend.release("deployments.activate")
    async with running_api(path, backend) as api:
        failed = await api.settled(accepted.json()["id"])
        assert (failed["status"], failed["error"]["code"]) == ("failed", "dependency_unfit")


ROUTE_LOST = {"tlsReady": True, "activeDeploymentRouteReady": False}
ROUTE = {"tlsReady": True, "activeDeploymentRouteReady": True}


async def deploy_endpoint(api: Api) -> dict[str, str]:
    """A Version with a secret in force, one without beside it, and an endpoint of their Worker."""
    worker = await api.worker()
    plain = await api.version(worker, "plain")
    spec = {**(await api.resource(plain))["spec"], "requiredSensitiveVars": ["TOKEN"]}
    made = (await api.create("WorkerVersion", "secret", spec, privateInputs=SECRETS)).json()
    version = str((await api.settled(made["id"]))["resourceUid"])
    deployment = await api.made("WorkerDeployment", "d", deployment_spec(worker, (version, 5000), (plain, 5000)))
    endpoint = await api.made("WorkerEndpoint", "e", {"worker": ref(worker)})
    return {"worker": worker, "plain": plain, "version": version, "deployment": deployment, "endpoint": endpoint}


@pytest.mark.req("WE-06", "WD-08", "HA-38")
async def test_the_route_of_an_endpoint_is_not_ready_while_a_weighted_version_lacks_its_secrets(tmp_path: Path) -> None:
    path, backend = tmp_path / "control.sqlite", FakeBackend()
    async with running_api(path, backend) as api:
        made = await deploy_endpoint(api)
        before = await api.resource(made["endpoint"])
        assert before["observed"] == ROUTE
        clock = api.clock
    clock.move_to(clock.now_ms() + 60_000)
    backend.lost.add(made["version"])
    async with running_api(path, backend, clock) as api:
        lost = await api.resource(made["endpoint"])
        assert lost["observed"] == ROUTE_LOST, "one of the two Versions is enough"
        assert lost == {**before, "observed": ROUTE_LOST, "observedAt": lost["observedAt"]}
        assert lost["observedAt"] > before["observedAt"]
        again = await api.update(made["endpoint"], 1, lost["spec"])
        await api.settled(again.json()["id"])
        assert (await api.resource(made["endpoint"]))["observed"] == ROUTE_LOST, "a PUT recovers no secret"
        away = await api.update(made["deployment"], 1, deployment_spec(made["worker"], (made["plain"], 10000)))
        await api.settled(away.json()["id"])
        assert (await api.resource(made["endpoint"]))["observed"] == ROUTE


@pytest.mark.req("WE-06", "WD-08")
async def test_a_restored_key_makes_the_route_ready_again(tmp_path: Path) -> None:
    path, backend = tmp_path / "control.sqlite", FakeBackend()
    async with running_api(path, backend) as api:
        made = await deploy_endpoint(api)
    backend.lost.add(made["version"])
    backend.gateway_answers = False
    async with running_api(path, backend) as api:
        assert (await api.resource(made["endpoint"]))["observed"]["activeDeploymentRouteReady"] is False
    backend.lost.clear()
    backend.gateway_answers = True
    async with running_api(path, backend) as api:
        assert (await api.resource(made["endpoint"]))["observed"] == ROUTE


async def failed_update(api: Api, uid: str) -> Json:
    """The Resource after a change of it that failed for a reason of its own."""
    found = await api.resource(uid)
    api.backend.fail("versions.install", BackendError("the runtime had a bad moment"))
    change = await api.update(uid, found["generation"], found["spec"])
    assert (await api.settled(change.json()["id"]))["status"] == "failed"
    return await api.resource(uid)


@pytest.mark.req("HA-38", "HA-44", "WV-12")
async def test_a_version_in_error_tells_of_a_loss_and_of_its_end_and_of_nothing_else(tmp_path: Path) -> None:
    path, backend = tmp_path / "control.sqlite", FakeBackend()
    async with running_api(path, backend) as api:
        made = await deploy(api)
        before = await api.resource(made["version"])
        failed, clock = await failed_update(api, made["version"]), api.clock
    assert (failed["phase"], failed["observed"], failed["observedAt"]) == (
        "error",
        before["observed"],
        before["observedAt"],
    )
    for is_lost in (True, False):
        clock.move_to(clock.now_ms() + 60_000)
        backend.lost = {made["version"]} if is_lost else set()
        async with running_api(path, backend, clock) as api:
            shown = await api.resource(made["version"])
        assert shown["observed"] == {**before["observed"], "ready": not is_lost}
        assert shown["observedAt"] > failed["observedAt"]
        assert {**shown, "observed": failed["observed"], "observedAt": failed["observedAt"]} == failed


@pytest.mark.req("HA-38", "HA-39", "WV-12")
async def test_a_resource_that_was_never_verified_is_not_observed_by_a_look(tmp_path: Path) -> None:
    path, backend = tmp_path / "control.sqlite", FakeBackend()
    async with running_api(path, backend) as api:
        made = await deploy(api)
        spec = (await api.resource(made["version"]))["spec"]
        backend.fail("versions.install", BackendError("no"))
        answer = await api.create("WorkerVersion", "never", spec, privateInputs=SECRETS)
        never = str((await api.settled(answer.json()["id"]))["resourceUid"])
    backend.lost.add(never)
    async with running_api(path, backend) as api:
        shown = await api.resource(never)
    assert (shown["phase"], shown["observed"], shown["observedAt"]) == ("error", {}, None)


@pytest.mark.req("HA-38", "WV-12")
async def test_what_was_found_out_during_a_change_shows_once_the_change_has_failed(tmp_path: Path) -> None:
    path, backend = tmp_path / "control.sqlite", FakeBackend()
    async with running_api(path, backend) as api:
        made = await deploy(api)
        before = await api.resource(made["version"])
        backend.hold("versions.install")
        change = (await api.update(made["version"], 1, before["spec"])).json()
        clock = api.clock
    clock.move_to(clock.now_ms() + 60_000)
    backend.lost.add(made["version"])
    async with running_api(path, backend, clock) as api:
        pending = await api.resource(made["version"])
        assert {**pending, "lastOperation": ""} == {
            **before,
            "generation": 2,
            "phase": "pending",
            "lastOperation": "",
        }, "bit for bit as before"
        assert (await api.resource(made["deployment"]))["observed"]["ready"] is False
        backend.release("versions.install")
        assert (await api.settled(change["id"]))["status"] == "failed"
        shown = await api.resource(made["version"])
    assert (shown["phase"], shown["observed"]["ready"]) == ("error", False)
    assert shown["observedAt"] > before["observedAt"]


async def meet_a_loss(api: Api) -> Json:
    """A change that finds the secrets of its Version lost; the Resource."""
    made = await deploy(api)
    api.backend.lost.add(made["version"])
    change = await api.update(made["version"], 1, (await api.resource(made["version"]))["spec"])
    await api.settled(change.json()["id"])
    return await api.resource(made["version"])


@pytest.mark.req("HA-38", "HA-81", "WV-12")
def test_a_kill_between_the_failure_and_what_it_had_put_off_loses_nothing(tmp_path: Path) -> None:
    ended, _ = fork(tmp_path, BEFORE_CATCH_UP, meet_a_loss)
    assert ended == -signal.SIGKILL
    backend = durable_backend(tmp_path)
    [uid] = [uid for uid, version in backend.versions.items() if version.secrets]
    backend.lost.add(uid)
    shown = asyncio.run(after_a_start(tmp_path, backend, uid))
    assert (shown["phase"], shown["observed"]["ready"]) == ("error", False)


async def after_a_start(directory: Path, backend: FakeBackend, uid: str) -> Json:
    async with running_api(directory / "control.sqlite", backend) as api:
        return await api.resource(uid)
