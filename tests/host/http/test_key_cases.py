"""What other hosts got wrong about idempotency keys, tried here: the rows I of the public cases."""

from pathlib import Path

import pytest

from host.http.routes import ROOT
from host.model.records import Principal
from tests.host.api import Api, form_url, ref
from tests.host.http.test_principals import people

KEY = "key-idempotency-01"


@pytest.mark.req("HA-52", "HA-37")
async def test_i01_another_body_is_a_mismatch_even_while_the_first_runs(api: Api) -> None:
    api.backend.hold("workers.register")
    first = await api.create("ModuleWorker", "w", {}, key=KEY)
    assert first.status_code == 202
    other = await api.create("ModuleWorker", "x", {}, key=KEY)
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")
    same = await api.create("ModuleWorker", "w", {}, key=KEY)
    assert (same.status_code, same.json()["id"]) == (202, first.json()["id"])
    api.backend.release("workers.register")
    await api.settled(first.json()["id"])
    later = await api.create("ModuleWorker", "x", {}, key=KEY)
    assert (later.status_code, later.json()["code"]) == (409, "idempotency_conflict")
    assert len(api.backend.workers) == 1


@pytest.mark.req("HA-51", "HA-52", "HA-08")
async def test_i02_values_matter_and_spelling_does_not(api: Api) -> None:
    worker = await api.worker()
    bundle = await api.made("WorkerBundle", "b", {"artifact": api.backend.store_bundle([], [])})
    spec = {"worker": ref(worker), "bundle": ref(bundle), "handlers": [], "vars": {"A": [1, 2]}}
    first = await api.create("WorkerVersion", "v", spec, key=KEY)
    assert first.status_code == 200
    headers = {"content-type": "application/json", "idempotency-key": KEY}
    spelt = (
        f'\n{{ "name":"v", "spec": {{"vars": {{"\\u0041": [1.0, 2e0]}}, "handlers": [ ], "bundle": {{"resourceUid":"{bundle}"}},'
        f' "worker":{{"resourceUid":"{worker}"}} }},\t"space":"s", "form":"{form_url("WorkerVersion")}" }}'
    )
    again = await api.client.post(f"{ROOT}/resources", content=spelt, headers=headers)
    assert (again.status_code, again.json()) == (200, first.json())
    without = {name: value for name, value in spec.items() if name != "vars"}
    for changed in ({**spec, "vars": {"A": [2, 1]}}, {**spec, "vars": {"A": [1, 3]}}, without, {**spec, "vars": None}):
        answer = await api.create("WorkerVersion", "v", changed, key=KEY)
        assert (answer.status_code, answer.json()["code"]) == (409, "idempotency_conflict"), changed


@pytest.mark.req("HA-50", "HA-52", "HA-54")
async def test_i05_a_key_belongs_to_its_principal_and_outlives_its_resource(tmp_path: Path) -> None:
    async with people(tmp_path, {"alice": Principal("alice"), "bob": Principal("bob")}) as found:
        alice, bob = found.acting("alice"), found.acting("bob")
        first = (await alice.create("ModuleWorker", "w", {}, key=KEY)).json()
        theirs = (await bob.create("ModuleWorker", "w", {}, key=KEY)).json()
        assert first["resourceUid"] != theirs["resourceUid"]
        elsewhere = await alice.create("ModuleWorker", "w", {}, key=KEY, space="b")
        assert (elsewhere.status_code, elsewhere.json()["code"]) == (409, "idempotency_conflict")
        await alice.delete(first["resourceUid"], 1)
        await alice.create("ModuleWorker", "w", {})
        again = await alice.create("ModuleWorker", "w", {}, key=KEY)
        assert (again.status_code, again.json()) == (200, first)
        for each in (alice, bob):
            await each.client.aclose()
