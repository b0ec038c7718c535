"""A Version that has lost its secrets: no longer ready, nothing new is put on it, and nobody guesses at them."""

from pathlib import Path

import pytest

from tests.host.api import Api, Json, deployment_spec, ref, running_api
from tests.host.backend import FakeBackend

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
        assert {shown[name]["observed"]["ready"] for name in ("deployment", "worker", "workflow")} == {False}


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
