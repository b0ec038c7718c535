"""Private inputs: taken, compared and handed on without ever being shown."""

import base64
import hashlib
import logging
from pathlib import Path
from typing import Any

import pytest

from host.engine.limits import Capabilities
from host.http.routes import ROOT
from host.model.private_keys import KEY_BYTES, PrivateKeys
from host.model.time import ControlledClock
from host.ports import BackendUnavailable
from tests.host.api import START_MS, Api, Json, ref, running_api

SECRETS = {"TOKEN": "correct horse", "PIN": "0000-staple"}
OTHER_KEYS = PrivateKeys(b"o" * KEY_BYTES)
HOUR_MS = 3_600_000


async def version_spec(api: Api, names: list[str] | None = None) -> Json:
    """A Version's spec that needs these sensitive names; its Worker and bundle are made here."""
    worker = await api.worker()
    bundle = await api.made("WorkerBundle", "b", {"artifact": api.backend.store_bundle([], [])})
    required = sorted(SECRETS) if names is None else names
    return {"worker": ref(worker), "bundle": ref(bundle), "handlers": [], "requiredSensitiveVars": required}


async def made(api: Api, spec: Json, key: str = "key-private-000000", **values: str) -> Json:
    answer = await api.create("WorkerVersion", "v", spec, key=key, privateInputs=values or SECRETS)
    assert answer.status_code in (200, 202), answer.text
    return dict(answer.json())


async def waiting(api: Api, spec: Json) -> Json:
    """An Operation whose inputs expired before it was taken up: it waits for them."""
    api.backend.hold("workers.register")
    worker = (await api.create("ModuleWorker", "slow", {})).json()
    spec = {**spec, "worker": ref(worker["resourceUid"])}
    queued = await made(api, spec)
    assert queued["status"] == "queued"
    api.clock.move_to(api.clock.now_ms() + HOUR_MS)
    api.backend.release("workers.register")
    await api.settled(worker["id"])
    while (found := await api.operation(queued["id"]))["status"] == "queued":
        await api.engine.wait_for_settlement(await api.engine.operation(api.principal, queued["id"]))
    return found


@pytest.mark.req("HA-60", "WV-07")
async def test_the_values_reach_the_backend_and_nothing_else(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    operation = await api.settled((await made(api, await version_spec(api)))["id"])

    assert operation["status"] == "succeeded"
    record = api.backend.versions[operation["resourceUid"]]
    assert record.secrets == SECRETS
    assert "horse" not in repr(record)
    resource = await api.resource(operation["resourceUid"])
    for shown in (str(operation), str(resource), caplog.text):
        assert "horse" not in shown
        assert "staple" not in shown


@pytest.mark.req("HA-61")
async def test_no_file_of_the_host_holds_a_value_or_its_plain_hash(tmp_path: Path) -> None:
    async with running_api(tmp_path / "control.sqlite") as api:
        api.backend.hold("code.verify")
        operation = await made(api, await version_spec(api))
        assert operation["status"] == "running"
        text = '{"PIN":"0000-staple","TOKEN":"correct horse"}'
        forms = [text, *SECRETS.values()]
        needles = [part.encode() for part in forms]
        needles += [hashlib.sha256(part.encode()).digest() for part in forms]
        needles += [hashlib.sha256(part.encode()).hexdigest().encode() for part in forms]
        needles += [base64.b64encode(part.encode()) for part in forms]
        stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
        assert not [needle for needle in needles if needle in stored]
        api.backend.release("code.verify")
        await api.settled(operation["id"])
        rows = await api.database.read(lambda tx: tx.execute("SELECT count(*) FROM private_values"))
        assert rows == [(0,)], "a value is kept no longer than it is needed"


@pytest.mark.req("HA-60", "WV-07", "HA-29")
@pytest.mark.parametrize(
    ("inputs", "code"),
    [
        (None, "invalid_spec"),
        ({}, "invalid_spec"),
        ({"TOKEN": "x"}, "invalid_spec"),
        ({"TOKEN": "x", "PIN": "y", "MORE": "z"}, "invalid_spec"),
        ({"TOKEN": "x", "PIN": ""}, "invalid_spec"),
        ({"TOKEN": "x", "PIN": 1}, "invalid_request"),
        ({"TOKEN": "x", "PIN": None}, "invalid_request"),
        ([], "invalid_request"),
    ],
)
async def test_names_and_types_are_exact(api: Api, inputs: Any, code: str) -> None:
    spec = await version_spec(api)
    more = {} if inputs is None else {"privateInputs": inputs}
    answer = await api.create("WorkerVersion", "v", spec, **more)
    assert (answer.status_code, answer.json()["code"]) == (400 if code == "invalid_request" else 422, code)
    assert not api.backend.versions


@pytest.mark.req("HA-60", "HA-29", "WV-07")
async def test_an_empty_map_is_a_presence(api: Api) -> None:
    spec = await version_spec(api, [])
    first = await api.create("WorkerVersion", "v", spec, key="key-empty-00000000", privateInputs={})
    assert first.status_code == 200
    assert (await api.create("WorkerVersion", "v", spec, key="key-empty-00000000", privateInputs={})).status_code == 200
    omitted = await api.create("WorkerVersion", "v", spec, key="key-empty-00000000")
    assert omitted.json()["code"] == "idempotency_conflict"
    refused = await api.create("ModuleWorker", "w2", {}, privateInputs={})
    assert (refused.status_code, refused.json()["code"]) == (422, "capability_required")


@pytest.mark.req("HA-60", "HA-29", "HA-55")
async def test_without_the_capability_a_secret_is_refused_and_an_old_one_stays(tmp_path: Path) -> None:
    path, off = tmp_path / "control.sqlite", Capabilities(private_inputs=False)
    async with running_api(path) as api:
        spec = await version_spec(api)
        first = await made(api, spec)
        backend = api.backend
    async with running_api(path, backend, capabilities=off) as api:
        given: tuple[Json, ...] = ({}, {"privateInputs": SECRETS})
        for more in given:
            answer = await api.create("WorkerVersion", "v2", spec, **more)
            assert (answer.status_code, answer.json()["code"]) == (422, "capability_required")
        again = await api.create("WorkerVersion", "v", spec, key="key-private-000000", privateInputs=SECRETS)
        assert (again.status_code, again.json()["id"]) == (200, first["id"])
        assert (await api.operation(first["id"]))["retainUntil"] == first["retainUntil"]
        assert (await api.update(first["resourceUid"], 1, spec)).json()["status"] == "succeeded"


@pytest.mark.req("HA-51", "HA-52")
async def test_a_private_value_takes_part_in_the_comparison_of_requests(api: Api) -> None:
    spec = await version_spec(api)
    first = await made(api, spec)
    again = await made(api, spec)
    assert again["id"] == first["id"]
    for values in ({**SECRETS, "PIN": "other"}, {"TOKEN": "correct horse"}):
        answer = await api.create("WorkerVersion", "v", spec, key="key-private-000000", privateInputs=values)
        assert (answer.status_code, answer.json()["code"]) == (409, "idempotency_conflict")
        assert "operationId" not in answer.json()


@pytest.mark.req("HA-62", "HA-63", "HA-41", "HA-39")
async def test_an_operation_whose_values_expired_waits_and_continues_with_the_same_map(api: Api) -> None:
    asked = await waiting(api, await version_spec(api))

    assert (asked["status"], asked["effect"]) == ("waiting_input", "none")
    assert asked["inputRequired"] == {"names": ["PIN", "TOKEN"], "reason": "expired"}
    assert (await api.resource(asked["resourceUid"]))["phase"] == "pending"
    for values, code in (
        ({**SECRETS, "PIN": "other"}, "private_inputs_conflict"),
        ({**SECRETS, "MORE": "x"}, "private_inputs_conflict"),
        ({"PIN": SECRETS["PIN"]}, "private_inputs_conflict"),
        ({}, "private_inputs_conflict"),
        ({"PIN": 1}, "invalid_request"),
    ):
        answer = await api.replenish(asked["id"], values)
        assert (answer.status_code, answer.json()["code"]) == (400 if code == "invalid_request" else 409, code)
    busy = await api.update(asked["resourceUid"], 1, {})
    assert busy.status_code == 422
    busy = await api.delete(asked["resourceUid"], 1)
    assert busy.json()["code"] == "resource_busy"

    answer = await api.replenish(asked["id"], SECRETS)

    assert (answer.status_code, answer.json()["id"]) == (200, asked["id"])
    assert "inputRequired" not in answer.json()
    done = await api.settled(asked["id"])
    assert (done["status"], done["generation"]) == ("succeeded", 1)
    assert api.backend.versions[asked["resourceUid"]].secrets == SECRETS
    after = await api.replenish(asked["id"], SECRETS)
    assert (after.status_code, after.json()["code"]) == (409, "operation_terminal")


@pytest.mark.req("HA-66")
async def test_a_mutation_is_no_replenishment(api: Api) -> None:
    spec = await version_spec(api)
    asked = await waiting(api, spec)
    stored = (await api.resource(asked["resourceUid"]))["spec"]
    busy = await api.update(asked["resourceUid"], 1, stored, privateInputs=SECRETS)
    assert (busy.status_code, busy.json()["code"]) == (409, "resource_busy")
    replay = await api.create("WorkerVersion", "v", stored, key="key-private-000000", privateInputs=SECRETS)
    assert (replay.status_code, replay.json()["status"]) == (202, "waiting_input")


@pytest.mark.req("HA-62")
async def test_a_replenishment_of_a_running_operation_starts_nothing_again(api: Api) -> None:
    api.backend.hold("code.verify")
    running = await made(api, await version_spec(api))
    for _ in range(2):
        answer = await api.replenish(running["id"], SECRETS)
        assert (answer.status_code, answer.json()["status"]) == (200, "running")
    api.backend.release("code.verify")
    assert (await api.settled(running["id"]))["status"] == "succeeded"
    assert [call for call, _ in api.backend.calls].count("versions.install") == 1


@pytest.mark.req("HA-62")
async def test_an_operation_without_private_inputs_takes_none(api: Api) -> None:
    api.backend.hold("workers.register")
    plain = (await api.create("ModuleWorker", "w", {})).json()
    assert (await api.replenish(plain["id"], SECRETS)).json()["code"] == "private_inputs_conflict"
    assert (await api.replenish("op-unknown", SECRETS)).status_code == 404
    path = f"{ROOT}/operations/{plain['id']}/private-inputs"
    for body in ({}, {"privateInputs": {}, "more": 1}, {"privateInputs": None}):
        assert (await api.client.put(path, json=body)).status_code == 400
    api.backend.release("workers.register")


@pytest.mark.req("HA-64")
async def test_expiry_of_the_value_leaves_what_compares_it(api: Api) -> None:
    asked = await waiting(api, await version_spec(api))
    await api.engine.sweep()
    rows = await api.database.read(lambda tx: tx.execute("SELECT sealed FROM private_values"))
    assert rows == [(None,)]
    api.clock.move_to(api.clock.now_ms() + 100 * 86_400_000)
    await api.engine.sweep()
    assert (await api.operation(asked["id"]))["status"] == "waiting_input"
    wrong = await api.replenish(asked["id"], {**SECRETS, "PIN": "x"})
    assert wrong.json()["code"] == "private_inputs_conflict"
    assert (await api.replenish(asked["id"], SECRETS)).status_code == 200
    assert (await api.settled(asked["id"]))["status"] == "succeeded"


@pytest.mark.req("HA-65", "HA-64")
async def test_lost_comparison_material_makes_replay_and_replenishment_unverifiable(tmp_path: Path) -> None:
    path, clock = tmp_path / "control.sqlite", ControlledClock.frozen(START_MS)
    async with running_api(path, clock=clock) as api:
        asked = await waiting(api, await version_spec(api))
        spec = (await api.resource(asked["resourceUid"]))["spec"]
        backend = api.backend
    async with running_api(path, backend, clock, keys=OTHER_KEYS) as api:
        for answer in (
            await api.create("WorkerVersion", "v", spec, key="key-private-000000", privateInputs=SECRETS),
            await api.replenish(asked["id"], SECRETS),
        ):
            assert (answer.status_code, answer.json()["code"]) == (409, "private_inputs_unverifiable")
            assert answer.json()["operationId"] == asked["id"]
        other = await api.create("WorkerVersion", "w", spec, key="key-private-000000", privateInputs=SECRETS)
        assert other.json()["code"] == "idempotency_conflict"
        assert (await api.operation(asked["id"]))["status"] == "waiting_input"
    async with running_api(path, backend, clock) as api:
        assert (await api.replenish(asked["id"], SECRETS)).status_code == 200
        assert (await api.settled(asked["id"]))["status"] == "succeeded"


@pytest.mark.req("HA-65")
async def test_an_unsent_operation_that_can_never_be_compared_fails_without_effect(tmp_path: Path) -> None:
    path = tmp_path / "control.sqlite"
    async with running_api(path) as api:
        spec = await version_spec(api)
        api.backend.hold("workers.register")
        worker = (await api.create("ModuleWorker", "slow", {})).json()["resourceUid"]
        queued = await made(api, {**spec, "worker": ref(worker)})
        backend = api.backend
    backend.release("workers.register")
    async with running_api(path, backend, keys=OTHER_KEYS) as api:
        operation = await api.settled(queued["id"])
        assert (operation["status"], operation["effect"]) == ("failed", "none")
        assert operation["error"]["code"] == "private_inputs_lost"


@pytest.mark.req("HA-63", "HA-65", "HA-46")
@pytest.mark.parametrize("is_installed", [True, False])
async def test_what_may_have_been_sent_is_looked_up_before_inputs_are_asked_for(
    tmp_path: Path, is_installed: bool
) -> None:
    path, clock = tmp_path / "control.sqlite", ControlledClock.frozen(START_MS)
    async with running_api(path, clock=clock) as api:
        spec = await version_spec(api)
        api.backend.hold("versions.install")
        operation = await made(api, spec)
        assert operation["status"] == "running"
        backend = api.backend
    if is_installed:
        backend.release("versions.install")
        async with running_api(tmp_path / "other.sqlite", backend) as other:
            twin = await made(other, await version_spec(other))
            backend.versions[operation["resourceUid"]] = backend.versions[twin["resourceUid"]]
    else:
        backend.release("versions.install")
    clock.move_to(START_MS + HOUR_MS)
    async with running_api(path, backend, clock) as api:
        found = await api.operation(operation["id"])
        while found["status"] not in ("succeeded", "waiting_input"):
            await api.engine.wait_for_settlement(await api.engine.operation(api.principal, operation["id"]))
            found = await api.operation(operation["id"])
        assert found["status"] == ("succeeded" if is_installed else "waiting_input")
        if not is_installed:
            assert found["effect"] == "none"
            assert (await api.replenish(operation["id"], SECRETS)).status_code == 200
            assert (await api.settled(operation["id"]))["status"] == "succeeded"


@pytest.mark.req("HA-63", "HA-46")
async def test_an_unknown_result_reconciles_instead_of_asking(api: Api) -> None:
    spec = await version_spec(api)
    api.backend.fail("versions.install", BackendUnavailable("away"))
    operation = await api.settled((await made(api, spec))["id"])
    assert operation["status"] == "succeeded"


@pytest.mark.req("WV-07", "HA-60", "WV-12")
async def test_an_update_keeps_the_values_or_repeats_them_exactly(tmp_path: Path) -> None:
    path = tmp_path / "control.sqlite"
    async with running_api(path) as api:
        spec = await version_spec(api)
        uid = (await made(api, spec))["resourceUid"]
        backend = api.backend
        assert (await api.update(uid, 1, spec)).json()["status"] == "succeeded"
        assert (await api.update(uid, 2, spec, privateInputs=SECRETS)).json()["status"] == "succeeded"
        for values in ({**SECRETS, "PIN": "other"}, {"PIN": SECRETS["PIN"]}, {}):
            answer = await api.update(uid, 3, spec, privateInputs=values)
            assert (answer.status_code, answer.json()["code"]) == (422, "invalid_spec")
        assert backend.versions[uid].secrets == SECRETS
        assert (await api.resource(uid))["generation"] == 3
    async with running_api(path, backend, keys=OTHER_KEYS) as api:
        answer = await api.update(uid, 3, spec, privateInputs=SECRETS)
        assert (answer.status_code, answer.json()["code"]) == (409, "private_inputs_unverifiable")


@pytest.mark.req("HA-44", "WV-07")
async def test_a_failed_creation_is_mended_by_the_same_values_only(api: Api) -> None:
    from host.ports import BackendError

    spec = await version_spec(api)
    api.backend.fail("versions.install", BackendError("broken"))
    failed = await made(api, spec)
    assert failed["status"] == "failed"
    uid = failed["resourceUid"]
    without = (await api.update(uid, 1, spec)).json()
    assert (without["status"], without["effect"]) == ("failed", "none")
    assert without["error"]["code"] == "private_inputs_lost"
    assert (await api.update(uid, 2, spec, privateInputs={**SECRETS, "PIN": "x"})).status_code == 422
    assert (await api.update(uid, 2, spec, privateInputs=SECRETS)).json()["status"] == "succeeded"
    assert (await api.delete(uid, 3)).json()["status"] == "succeeded"
    rows = await api.database.read(
        lambda tx: tx.execute("SELECT subject FROM private_comparisons WHERE subject = ?", (uid,))
    )
    assert not rows


@pytest.mark.req("HA-62", "HA-53")
async def test_a_failure_after_a_replenishment_loses_nothing(api: Api) -> None:
    from host.engine.replenishment import AFTER_REPLENISH
    from host.model.faults import FaultAction

    asked = await waiting(api, await version_spec(api))
    api.faults.arm(AFTER_REPLENISH, action=FaultAction.ERROR)
    assert (await api.replenish(asked["id"], SECRETS)).status_code == 500
    assert (await api.settled(asked["id"]))["status"] == "succeeded"


@pytest.mark.req("HA-42", "HA-45", "HA-63")
async def test_every_status_write_with_secrets_is_in_the_table(api: Api) -> None:
    from host.model.operation_states import EFFECTS, TRANSITIONS, Effect, Status

    spec = await version_spec(api)
    await api.database.write(lambda tx: tx.execute("CREATE TABLE written (old TEXT, new TEXT, effect TEXT)"))
    trigger = (
        "CREATE TRIGGER log_status AFTER UPDATE OF status ON operations BEGIN"
        " INSERT INTO written VALUES (old.status, new.status, new.effect); END"
    )
    await api.database.write(lambda tx: tx.execute(trigger))
    asked = await waiting(api, spec)
    api.backend.fail("versions.install", BackendUnavailable("away"))
    await api.replenish(asked["id"], SECRETS)
    assert (await api.settled(asked["id"]))["status"] == "succeeded"

    rows = await api.database.read(lambda tx: tx.execute("SELECT old, new, effect FROM written"))
    written = [(Status(str(old)), Status(str(new)), Effect(str(effect))) for old, new, effect in rows]
    assert {(old, new) for old, new, _ in written} <= {(old, new) for (old, _), new in TRANSITIONS.items()}
    assert all(effect in EFFECTS[new] for _, new, effect in written)
    assert (Status.WAITING_INPUT, Status.QUEUED) in {(old, new) for old, new, _ in written}
