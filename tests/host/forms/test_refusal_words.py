"""What a refusal names: the Resource that is in the way and what it lacks, and nothing to who may not read it."""

from pathlib import Path
from typing import Any

import pytest

from host.forms.registry import FormRegistry
from host.forms.spec import closed_object
from host.http.authentication import TokenAuthentication, TokenTable
from host.model.digest import sha256_hex
from host.model.errors import CallerError
from host.model.records import Principal, Right
from tests.host.api import Api, deployment_spec, form_url, ref, running_api


async def detail(answer: Any, code: str = "dependency_conflict") -> str:
    assert answer.json()["code"] == code, answer.text
    return str(answer.json()["detail"])


@pytest.mark.req("WD-05")
async def test_an_unfit_version_is_told_what_it_lacks_and_what_needs_that(api: Api) -> None:
    worker, other = await api.worker("w"), await api.worker("x")
    await api.made("DurableWorkflow", "orders", {"worker": ref(worker), "className": "Order"})
    await api.made("DurableWorkflow", "stays", {"worker": ref(worker), "className": "Stay"})
    bundle = await api.made("WorkerBundle", "b", {"artifact": api.backend.store_bundle([], [], "caller")})
    binding = [{"name": "W", "resource": ref(worker)}]
    caller = {"worker": ref(other), "bundle": ref(bundle), "handlers": [], "serviceBindings": binding}
    await api.made("WorkerVersion", "caller", caller)
    version = await api.version(worker, "greeter-2", ("Stay",), handlers=())
    refused = await api.create("WorkerDeployment", "d", deployment_spec(worker, (version, 10000)))
    assert await detail(refused) == (
        "the Version 'greeter-2' lacks the class Order for DurableWorkflow 'orders',"
        " the handler fetch for a service binding of WorkerVersion 'caller'; it exports Stay"
    )


@pytest.mark.req("WD-05", "WE-07")
async def test_a_version_that_cannot_answer_is_told_of_the_endpoint_and_only_three_needs_are(api: Api) -> None:
    worker = await api.worker()
    good = await api.version(worker, "good", ("A", "B", "C"))
    deployment = await api.made("WorkerDeployment", "live", deployment_spec(worker, (good, 10000)))
    await api.made("WorkerEndpoint", "site", {"worker": ref(worker)})
    await _check_only_what_is_missing(api, worker, deployment)
    bad = await api.version(worker, "bad", ("A", "B", "C"), handlers=())
    refused = await api.update(deployment, 1, deployment_spec(worker, (bad, 10000)))
    assert (
        await detail(refused)
        == "the Version 'bad' lacks the handler fetch for WorkerEndpoint 'site'; it exports A, B, C"
    )
    for name in "ABC":
        await api.made("DurableWorkflow", f"f-{name}", {"worker": ref(worker), "className": name})
    worse = await api.version(worker, "worse", handlers=())
    refused = await api.update(deployment, 1, deployment_spec(worker, (worse, 10000)))
    assert "for DurableWorkflow 'f-C' and 1 more; it exports no Workflow class" in await detail(refused)


async def _check_only_what_is_missing(api: Api, worker: str, deployment: str) -> None:
    workflow = await api.made("DurableWorkflow", "f", {"worker": ref(worker), "className": "A"})
    answering = await api.version(worker, "answering", ("B",))
    refused = await api.update(deployment, 1, deployment_spec(worker, (answering, 10000)))
    assert await detail(refused) == "the Version 'answering' lacks the class A for DurableWorkflow 'f'; it exports B"
    assert (await api.delete(workflow, 1)).status_code == 200


@pytest.mark.req("MW-01", "WE-08", "WD-02")
async def test_what_is_in_the_way_is_named_three_at_most(api: Api) -> None:
    worker = await api.worker()
    version = await api.version(worker, "v")
    deployment = await api.made("WorkerDeployment", "live", deployment_spec(worker, (version, 10000)))
    assert await detail(await api.delete(version, 1)) == (
        "other Resources still refer to this one: WorkerDeployment 'live'"
    )
    for number in range(2):
        await api.made("WorkerEndpoint" if number else "WorkerVersion", f"m{number}", await _spec(api, number, worker))
    assert await detail(await api.delete(worker, 1)) == (
        "other Resources still refer to this one:"
        " WorkerDeployment 'live', WorkerEndpoint 'm1', WorkerVersion 'm0' and 1 more"
    )
    second = await api.create("WorkerDeployment", "d2", deployment_spec(worker, (version, 10000)))
    assert await detail(second) == "the Worker has another Deployment 'live'"
    second = await api.create("WorkerEndpoint", "e2", {"worker": ref(worker)})
    assert await detail(second) == "the Worker has another endpoint 'm1'"
    assert (await api.resource(deployment))["generation"] == 1


async def _spec(api: Api, number: int, worker: str) -> dict[str, object]:
    if number:
        return {"worker": ref(worker)}
    bundle = await api.made("WorkerBundle", "mb", {"artifact": api.backend.store_bundle(["fetch"], [], "mb")})
    return {"worker": ref(worker), "bundle": ref(bundle), "handlers": ["fetch"]}


@pytest.mark.req("HA-23")
async def test_who_may_not_read_is_told_no_name(tmp_path: Path) -> None:
    rights = {"owner": Principal("p"), "writer": Principal("p", frozenset({Right.CHANGE, Right.REFER}))}
    table = TokenTable({sha256_hex(word.encode()): principal for word, principal in rights.items()})
    async with running_api(tmp_path / "c.sqlite", authenticator=TokenAuthentication(lambda: table)) as api:
        client = api.client
        client.headers["authorization"] = "Bearer owner"
        worker = (await api.create("ModuleWorker", "hidden-w", {})).json()["resourceUid"]
        workflow = {"worker": ref(worker), "className": "Hidden"}
        assert (await api.create("DurableWorkflow", "hidden-f", workflow)).status_code == 200
        artifact = {"artifact": api.backend.store_bundle(["fetch"], ["Shown"])}
        bundle = (await api.create("WorkerBundle", "hidden-b", artifact)).json()["resourceUid"]
        version = {"worker": ref(worker), "bundle": ref(bundle), "handlers": ["fetch"]}
        unfit = (await api.create("WorkerVersion", "hidden-v", version)).json()["resourceUid"]
        client.headers["authorization"] = "Bearer writer"
        refused = await api.create("WorkerDeployment", "d", deployment_spec(worker, (unfit, 10000)))
        assert await detail(refused) == (
            "a Version lacks a class or handler that something attached to the Worker needs"
        )
        client.headers["authorization"] = "Bearer owner"
        assert (
            "'hidden-v' lacks the class Hidden"
            in (await api.create("WorkerDeployment", "d", deployment_spec(worker, (unfit, 10000)))).text
        )
        live = (await api.create("ModuleWorker", "live-w", {})).json()["resourceUid"]
        fit = (await api.create("WorkerVersion", "live-v", {**version, "worker": ref(live)})).json()["resourceUid"]
        assert (await api.create("WorkerDeployment", "live-d", deployment_spec(live, (fit, 10000)))).status_code == 200
        client.headers["authorization"] = "Bearer writer"
        refusals = [
            await api.create("WorkerDeployment", "d", deployment_spec(live, (fit, 10000))),
            await api.create("DurableWorkflow", "f", {"worker": ref(live), "className": "Nope"}),
        ]
        assert [await detail(each) for each in refusals] == [
            "the Worker has another Deployment",
            "the selected Version of the Worker does not export the class Nope",
        ]


@pytest.mark.req("HA-23")
async def test_who_may_change_but_not_read_is_not_told_that_a_resource_is_referred_to(tmp_path: Path) -> None:
    rights = {"owner": Principal("p"), "writer": Principal("p", frozenset({Right.CHANGE}))}
    table = TokenTable({sha256_hex(word.encode()): principal for word, principal in rights.items()})
    async with running_api(tmp_path / "c.sqlite", authenticator=TokenAuthentication(lambda: table)) as api:
        api.client.headers["authorization"] = "Bearer owner"
        worker = (await api.create("ModuleWorker", "w", {})).json()["resourceUid"]
        await api.create("DurableWorkflow", "hidden", {"worker": ref(worker), "className": "C"})
        assert "'hidden'" in (await api.delete(worker, 1)).text
        api.client.headers["authorization"] = "Bearer writer"
        refused = await api.delete(worker, 1)
        assert (refused.status_code, "hidden" in refused.text) == (404, False)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("vsr", '"vsr"'),
        ('a"\n\u202e\ud800', '"a\\"\\n\\u202e\\ud800"'),
        ("x" * 64, '"' + "x" * 64 + '"'),
        ("x" * 65, '"' + "x" * 61 + '..."'),
        ("", '""'),
    ],
)
@pytest.mark.req("WV-01")
def test_an_unknown_member_is_named_safely(name: str, shown: str) -> None:
    with pytest.raises(CallerError) as caught:
        closed_object({name: 1}, "spec", optional=("vars",))
    assert caught.value.detail == f"spec has an unknown member: {shown}"


@pytest.mark.req("HA-32")
async def test_a_forms_url_with_wrong_slashes_at_the_end_is_answered_with_the_right_one(api: Api) -> None:
    right = form_url("ModuleWorker")
    for wrong in (right[:-1], right + "/"):
        body = {"form": wrong, "space": "s", "name": "w", "spec": {}}
        answer = await api.preview({"action": "create", "input": body})
        [error] = answer.json()["errors"]
        assert error == {
            "code": "unsupported_form",
            "message": f'this host does not support the Form "{wrong}": its URL is {right}, to the last slash',
        }
    assert FormRegistry.built_in().near("https://a.example/Other/") is None
