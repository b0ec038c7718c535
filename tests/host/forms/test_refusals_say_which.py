"""What a refusal says of the request itself: which entry, which names, which rule, which URL; never a value."""

from typing import Any

import pytest

from host.model.digest import sha256_hex
from host.model.ids import IDEMPOTENCY_KEY_RULE, IDENTIFIER_RULE
from tests.host.api import FORMS, Api, deployment_spec, form_url, ref


def told(answer: Any, code: str) -> str:
    assert answer.json()["code"] == code, answer.text
    return str(answer.json()["detail"])


def unusable(where: str, form: str) -> str:
    return (
        f"{where} refers to a Resource that cannot be used: a {form} of the same Space is needed,"
        " verified and not being deleted, and the right to refer to it"
    )


@pytest.mark.req("WD-01")
async def test_weights_that_are_not_the_whole_are_told_with_their_sum(api: Api) -> None:
    refused = await api.create("WorkerDeployment", "d", deployment_spec("w", ("a", 5000), ("b", 4000)))
    assert told(refused, "invalid_spec") == "the weights of spec.versions add up to 9000, not to 10000"


@pytest.mark.req("HA-32", "WD-02")
async def test_the_entry_that_is_no_version_is_told_by_its_place_at_a_create_and_at_an_update(api: Api) -> None:
    worker, other = await api.worker("w"), await api.worker("x")
    version = await api.version(worker, "v")
    live = await api.made("WorkerDeployment", "live", deployment_spec(worker, (version, 10000)))
    for uid, place in ((other, 0), (other, 1), ("r-nothing", 0), ("r-nothing", 1)):
        weights = [(version, 5000)]
        weights.insert(place, (uid, 5000))
        spec = deployment_spec(worker, *weights)
        for refused in (await api.create("WorkerDeployment", "d", spec), await api.update(live, 1, spec)):
            words = told(refused, "dependency_conflict")
            assert words == unusable(f"spec.versions[{place}].workerVersion", "WorkerVersion")
    foreign = await api.version(other, "foreign")
    refused = await api.update(live, 1, deployment_spec(worker, (foreign, 10000)))
    assert told(refused, "dependency_conflict") == (
        "spec.versions[0].workerVersion: the Version 'foreign' belongs to another Worker"
    )


@pytest.mark.req("HA-32", "WV-02")
async def test_the_binding_that_cannot_be_used_is_named_with_the_form_it_needs(api: Api) -> None:
    worker = await api.worker()
    bundle = await api.made("WorkerBundle", "b", {"artifact": api.backend.store_bundle(["fetch"], [], "b")})
    bindings = [{"name": "GOOD", "resource": ref(worker)}, {"name": "BAD", "resource": ref(bundle)}]
    spec = {"worker": ref(worker), "bundle": ref(bundle), "handlers": ["fetch"], "serviceBindings": bindings}
    refused = await api.create("WorkerVersion", "v", spec)
    assert told(refused, "dependency_conflict") == unusable("spec.serviceBindings 'BAD'", "ModuleWorker")


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        (None, '"KEY", "TOKEN" missing'),
        ({"KEY": "hush"}, '"TOKEN" missing'),
        ({"KEY": "hush", "TOKEN": "hush", "OTHER": "hush"}, '"OTHER" unknown'),
        ({"KEY": "hush", "token": "hush"}, '"TOKEN" missing; "token" unknown'),
        (
            {"KEY": "h", "TOKEN": "h", **{f"N{n}": "h" for n in range(9)}},
            '"N0", "N1", "N2", "N3", "N4", "N5", "N6", "N7" and 1 more unknown',
        ),
    ],
)
@pytest.mark.req("HA-60", "HA-61", "WV-07")
async def test_private_inputs_are_told_by_the_names_that_differ_and_by_no_value(
    api: Api, inputs: dict[str, str] | None, said: str
) -> None:
    spec = {"worker": ref("w"), "bundle": ref("b"), "handlers": [], "requiredSensitiveVars": ["KEY", "TOKEN"]}
    more: dict[str, Any] = {} if inputs is None else {"privateInputs": inputs}
    refused = await api.create("WorkerVersion", "v", spec, **more)
    words = told(refused, "invalid_spec")
    assert words == f"privateInputs has to have exactly the names of spec.requiredSensitiveVars: {said}"


@pytest.mark.req("HA-04", "HA-50")
async def test_names_and_keys_are_refused_with_their_rule(api: Api) -> None:
    assert told(await api.create("ModuleWorker", "-w", {}), "invalid_request") == f"name is not {IDENTIFIER_RULE}"
    asked = await api.get("/resources", space="-s")
    assert told(asked, "invalid_request") == f"the query's space is not {IDENTIFIER_RULE}"
    short = await api.create("ModuleWorker", "w", {}, key="short")
    assert told(short, "invalid_request") == f"the Idempotency-Key header is not {IDEMPOTENCY_KEY_RULE}"


@pytest.mark.req("HA-32")
async def test_a_form_in_another_version_is_answered_with_the_one_that_is_here(api: Api) -> None:
    for url, hint in (
        (f"{FORMS}/ModuleWorker/0.2.0/", f": it supports {form_url('ModuleWorker')}"),
        (f"{FORMS}/Nothing/0.3.0/", ""),
    ):
        [error] = (
            await api.preview({"action": "create", "input": {"form": url, "space": "s", "name": "w", "spec": {}}})
        ).json()["errors"]
        assert error == {"code": "unsupported_form", "message": f'this host does not support the Form "{url}"{hint}'}


@pytest.mark.req("WB-05", "WB-07")
async def test_a_file_that_is_not_held_is_named_by_its_path(api: Api) -> None:
    artifact = api.backend.store_assets({"a.txt": b"there", "css/b.txt": b"not there"})
    del api.backend.bytes_of[sha256_hex(b"not there")]
    operation = await api.settled((await api.create("StaticAssetBundle", "b", {"artifact": artifact})).json()["id"])
    assert operation["error"] == {"code": "artifact_refused", "message": '"css/b.txt": the bytes cannot be had'}
