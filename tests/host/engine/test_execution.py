"""What an Operation goes through: failures, lost backends, waiting and the old observation."""

import asyncio
from pathlib import Path

import pytest

from host.engine.acceptance import AFTER_COMMIT, BEFORE_COMMIT
from host.engine.executor import AFTER_BACKEND, AFTER_SETTLE, AFTER_TAKE
from host.model.faults import FaultAction
from host.model.operation_states import TRANSITIONS, Effect, IllegalTransition, Status
from host.ports import ArtifactRefused, BackendError, BackendUnavailable
from tests.host.api import START_MS, Api, deployment_spec, ref, running_api


@pytest.mark.req("HA-38", "HA-39", "HA-44")
async def test_pending_and_failed_changes_keep_the_old_observation(api: Api) -> None:
    artifact = api.backend.store_bundle([], [])
    bundle = await api.made("WorkerBundle", "b", {"artifact": artifact})
    worker = await api.worker()
    spec = {"worker": ref(worker), "bundle": ref(bundle), "handlers": []}
    version = await api.made("WorkerVersion", "v", spec)
    before = await api.resource(version)
    api.clock.move_to(START_MS + 5000)
    api.backend.hold("code.verify")
    api.backend.fail("code.verify", BackendError("the compiler is broken"))

    answer = await api.update(version, 1, spec, key="key-failing-00000")
    pending = await api.resource(version)

    kept = ("observedGeneration", "observedAt", "observed", "output")
    assert (pending["generation"], pending["phase"]) == (2, "pending")
    assert {name: pending[name] for name in kept} == {name: before[name] for name in kept}
    api.backend.release("code.verify")
    operation = await api.settled(answer.json()["id"])
    assert (operation["status"], operation["effect"]) == ("failed", "partial")
    assert operation["error"] == {"code": "backend_failed", "message": "the compiler is broken"}
    failed = await api.resource(version)
    assert failed["phase"] == "error"
    assert {name: failed[name] for name in kept} == {name: before[name] for name in kept}
    replay = await api.update(version, 1, spec, key="key-failing-00000")
    assert (replay.status_code, replay.json()["status"]) == (200, "failed")
    assert (await api.update(version, 2, spec)).json()["status"] == "succeeded"
    assert (await api.resource(version))["phase"] == "idle"


@pytest.mark.req("HA-46", "HA-37")
async def test_an_unknown_result_reconciles_until_it_is_known(api: Api) -> None:
    api.backend.fail("workers.register", *[BackendUnavailable("the runtime is away")] * 2)
    api.backend.hold("workers.register")
    answer = await api.create("ModuleWorker", "w", {})
    assert answer.json()["status"] == "running"
    assert answer.json()["effect"] == "unknown"
    api.backend.release("workers.register")

    operation = await api.settled(answer.json()["id"])

    assert (operation["status"], operation["effect"]) == ("succeeded", "complete")
    assert "error" not in operation
    assert [uid for call, uid in api.backend.calls if call == "workers.register"] == [operation["resourceUid"]] * 3


@pytest.mark.req("WB-07", "HA-45")
async def test_a_bundle_that_cannot_be_had_fails_without_effect(api: Api) -> None:
    artifact = {"url": "https://example.com/m.json", "sha256": "0" * 64}
    answer = await api.create("WorkerBundle", "b", {"artifact": artifact})
    operation = answer.json()
    assert (operation["status"], operation["effect"]) == ("failed", "none")
    assert operation["error"]["code"] == "artifact_refused"
    resource = await api.resource(operation["resourceUid"])
    assert (resource["phase"], resource["observed"], resource["observedAt"]) == ("error", {}, None)
    worker = await api.worker()
    spec = {"worker": ref(worker), "bundle": ref(operation["resourceUid"]), "handlers": []}
    assert (await api.create("WorkerVersion", "v", spec)).json()["code"] == "dependency_conflict"
    assert (await api.delete(operation["resourceUid"], 1)).status_code == 200


@pytest.mark.req("WB-02", "WB-07")
async def test_a_partly_held_bundle_is_released_when_a_file_is_missing(api: Api) -> None:
    artifact = api.backend.store_bundle([], [])
    api.backend.fail("artifacts.release")
    for digest in list(api.backend.bytes_of):
        if digest != artifact["sha256"]:
            del api.backend.bytes_of[digest]
    operation = (await api.create("WorkerBundle", "b", {"artifact": artifact})).json()
    assert (operation["status"], operation["effect"]) == ("failed", "none")
    assert not api.backend.held_by


@pytest.mark.req("MW-10")
@pytest.mark.parametrize(("declared", "exported"), [(["fetch"], ["fetch", "queue"]), ([], ["fetch"]), (["fetch"], [])])
async def test_handlers_are_matched_both_ways(api: Api, declared: list[str], exported: list[str]) -> None:
    worker = await api.worker()
    bundle = await api.made("WorkerBundle", "b", {"artifact": api.backend.store_bundle(exported, [])})
    spec = {"worker": ref(worker), "bundle": ref(bundle), "handlers": declared}
    operation = (await api.create("WorkerVersion", "v", spec)).json()
    assert (operation["status"], operation["error"]["code"]) == ("failed", "code_rejected")
    assert not api.backend.versions


@pytest.mark.req("WD-02")
async def test_an_operation_waits_visibly_for_what_it_needs(api: Api) -> None:
    worker = await api.worker()
    api.backend.hold("artifacts.hold")
    bundle = (await api.create("WorkerBundle", "b", {"artifact": api.backend.store_bundle([], [])})).json()
    spec = {"worker": ref(worker), "bundle": ref(bundle["resourceUid"]), "handlers": []}
    version = (await api.create("WorkerVersion", "v", spec)).json()
    weights = deployment_spec(worker, (version["resourceUid"], 10000))
    deployment = (await api.create("WorkerDeployment", "d", weights)).json()
    assert [version["status"], deployment["status"]] == ["queued", "queued"]
    assert [version["effect"], deployment["effect"]] == ["none", "none"]

    api.backend.release("artifacts.hold")

    assert (await api.settled(deployment["id"]))["status"] == "succeeded"
    assert (await api.resource(worker))["observed"]["activeDeploymentUid"] == deployment["resourceUid"]


@pytest.mark.req("WD-02", "HA-42")
async def test_a_failed_dependency_fails_what_waited_for_it(api: Api) -> None:
    worker = await api.worker()
    api.backend.hold("artifacts.hold")
    api.backend.fail("artifacts.hold", ArtifactRefused("no such bytes"))
    bundle = (await api.create("WorkerBundle", "b", {"artifact": api.backend.store_bundle([], [])})).json()
    spec = {"worker": ref(worker), "bundle": ref(bundle["resourceUid"]), "handlers": []}
    version = (await api.create("WorkerVersion", "v", spec)).json()
    api.backend.release("artifacts.hold")
    operation = await api.settled(version["id"])
    assert (operation["status"], operation["effect"]) == ("failed", "none")
    assert operation["error"]["code"] == "dependency_unfit"


@pytest.mark.req("HA-42")
async def test_every_status_write_is_in_the_table(tmp_path: Path) -> None:
    async with running_api(tmp_path / "control.sqlite") as api:
        await api.database.write(
            lambda tx: (
                tx.execute(
                    "CREATE TRIGGER log_status AFTER UPDATE OF status ON operations BEGIN"
                    " INSERT INTO written VALUES (old.status, new.status); END"
                )
                if not tx.execute("CREATE TABLE written (old TEXT, new TEXT)")
                else None
            )
        )
        api.backend.fail("workers.register", BackendUnavailable("away"), BackendError("broken"))
        api.backend.fail("workers.retire", BackendError("broken"), BackendUnavailable("away"))
        for name in ("a", "b"):
            operation = await api.settled((await api.create("ModuleWorker", name, {})).json()["id"])
            for generation in (1, 2):
                answer = await api.delete(operation["resourceUid"], generation)
                if answer.status_code < 300:
                    await api.settled(answer.json()["id"])
        rows = await api.database.read(lambda tx: tx.execute("SELECT DISTINCT old, new FROM written"))
    allowed = {(old.value, new.value) for (old, _), new in TRANSITIONS.items()}
    assert {(str(old), str(new)) for old, new in rows} <= allowed
    assert (Status.RECONCILING.value, Status.RUNNING.value) in rows


@pytest.mark.req("HA-14", "HA-46", "HA-53")
@pytest.mark.parametrize("point", [AFTER_TAKE, AFTER_BACKEND, AFTER_SETTLE, BEFORE_COMMIT, AFTER_COMMIT])
async def test_a_failure_between_two_writes_loses_nothing_and_doubles_nothing(api: Api, point: str) -> None:
    api.faults.arm(point, action=FaultAction.ERROR)
    first = await api.create("ModuleWorker", "w", {}, key="key-injected-0000")
    assert (first.status_code == 500) is (point in (BEFORE_COMMIT, AFTER_COMMIT)), first.text
    again = await api.create("ModuleWorker", "w", {}, key="key-injected-0000")
    assert (await api.settled(again.json()["id"]))["status"] == "succeeded"
    assert len((await api.get("/resources")).json()["items"]) == 1


@pytest.mark.req("HA-40")
async def test_the_wait_ends_when_the_client_leaves_and_the_work_goes_on(api: Api) -> None:
    api.backend.hold("workers.register")
    request = asyncio.create_task(api.create("ModuleWorker", "w", {}))
    await api.backend.reached["workers.register"].wait()
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    api.backend.release("workers.register")
    uid = (await api.get("/resources")).json()["items"][0]["uid"]
    operation = await api.settled((await api.resource(uid))["lastOperation"])
    assert operation["status"] == "succeeded"


@pytest.mark.req("HA-46", "HA-44", "HA-54")
async def test_what_nobody_can_decide_stays_reconciling_until_an_operator_says(api: Api) -> None:
    api.backend.fail("workers.register", *[BackendUnavailable("the runtime is away")] * 1000)
    made = (await api.create("ModuleWorker", "w", {})).json()
    uid = made["resourceUid"]
    api.clock.move_to(START_MS + 400 * 86_400_000)
    await api.engine.sweep()
    while (found := await api.operation(made["id"]))["status"] != "reconciling":
        await asyncio.sleep(0)
    assert found["error"] == {"code": "backend_unavailable", "message": "the runtime is away"}
    assert found["effect"] == "unknown"
    assert (await api.delete(uid, 1)).json()["code"] == "resource_busy"
    assert await api.engine.settle("op-none", Effect.NONE, "x") is None
    with pytest.raises(IllegalTransition):
        while await api.engine.settle(made["id"], Effect.UNKNOWN, "x") is None:
            await asyncio.sleep(0)

    while await api.engine.settle(made["id"], Effect.PARTIAL, "looked at it by hand") is None:
        await asyncio.sleep(0)

    done = await api.settled(made["id"])
    assert (done["status"], done["effect"]) == ("failed", "partial")
    assert done["error"] == {"code": "settled_by_operator", "message": "looked at it by hand"}
    assert (await api.resource(uid))["phase"] == "error"
    api.backend.failures.clear()
    assert (await api.delete(uid, 1)).json()["status"] == "succeeded"
    assert await api.engine.settle(made["id"], Effect.NONE, "x") is None
