"""Deleting a Workflow: close, fence, prove, purge; and the instances of other Workflows stay."""

import asyncio

import pytest

from emulator.workflow import ErrorName, Gates, InstanceRefused
from host.ports import BackendError, BackendUnavailable
from tests.emulator.workflow.bodies import never_ends
from tests.emulator.workflow.conftest import Boot
from tests.emulator.workflow.hosts import WORKER, WORKFLOW
from tests.emulator.workflow.isolates import Document, Step


async def _by_params(params: Document, step: Step) -> Document:
    match (params or {}).get("do"):
        case "sleep":
            await step.sleep("nap", 60)
        case "wait":
            await step.wait("w", "go", 60)
        case "hang":
            return await never_ends(params, step)
    return None


@pytest.mark.req("DW-06")
async def test_delete_stops_and_purges_living_instances_and_shuts_the_uid_for_ever(start: Boot) -> None:
    """subtle-points, Workflows 8"""
    host = await start(Flow=_by_params)
    for what in ("hang", "sleep", "wait", "end"):
        await host.create(what, {"do": what})
    await host.becomes("complete", "end")
    await host.becomes("waiting", "wait")
    await host.becomes("sleeping", "sleep")
    await host.send("unmatched", {"n": 1}, "wait")
    counts = await host.engine.gates.counts(WORKFLOW)
    assert (counts.running, counts.sleeping, counts.waiting, counts.complete) == (1, 1, 1, 1)
    old = host.runners.started[0]
    await host.engine.gates.retire(WORKFLOW)
    await host.engine.gates.retire(WORKFLOW)
    assert all(context.is_stopped for context in host.runners.started)
    old.on_frame('["done",1,"endless",1,null]')
    for table in ("runs", "workflow_steps", "workflow_events", "workflow_contexts", "workflow_due"):
        assert await host.database.prepare(f"SELECT COUNT(*) FROM {table}").raw() == [(0,)]
    with pytest.raises(InstanceRefused) as refused:
        await host.create("sleep")
    assert refused.value.name is ErrorName.BACKEND_UNAVAILABLE
    with pytest.raises(BackendError):
        await host.engine.gates.open(WORKFLOW, WORKER, "Flow")
    await host.engine.gates.open("workflow-2", WORKER, "Flow")
    assert await host.engine.instances.create("workflow-2", "sleep", None) == "sleep"
    await host.idle()


@pytest.mark.req("DW-06")
async def test_delete_with_an_unproven_stop_purges_nothing(start: Boot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("emulator.workflow.gates._STOP_DEADLINE_S", 0.05)
    host = await start(Flow=_by_params)
    gate = host.runners.stop_gate = asyncio.Event()
    await host.create("hang", {"do": "hang"})
    await host.executing()
    with pytest.raises(BackendUnavailable):
        await host.engine.gates.retire(WORKFLOW)
    assert (await host.history("hang")).instance.status == "running"
    with pytest.raises(InstanceRefused):
        await host.send("go", None, "hang")
    gate.set()
    await host.engine.gates.retire(WORKFLOW)
    assert await host.engine.inspection.instances() == ()


@pytest.mark.req("DW-08")
async def test_two_workflows_keep_instances_of_one_id_apart(start: Boot) -> None:
    """W06"""

    async def other(params: Document, step: Step) -> Document:
        return {"other": 1}

    host = await start(Flow=_by_params, Other=other)
    await host.deploy("v1", classes=("Flow", "Other"))
    await host.engine.gates.open("workflow-2", WORKER, "Other")
    await host.create("same", {"do": "wait"})
    await host.engine.instances.create("workflow-2", "same", None)
    await host.idle()
    assert (await host.status("same")).status == "waiting"
    assert (await host.engine.instances.status("workflow-2", "same")).output_text == '{"other":1}'


@pytest.mark.req("WD-07", "WV-09")
async def test_contexts_of_a_withdrawn_version_stop_and_their_instances_go_on_under_another(start: Boot) -> None:
    host = await start(Flow=_by_params)
    await host.create("hang", {"do": "hang"})
    await host.executing()
    assert await host.engine.is_executing("v1")
    await host.deploy("v2")
    await host.engine.stop_version("v1")
    assert not await host.engine.is_executing("v1")
    await host.executing(contexts=2)
    assert host.runners.last.start.version.version_uid == "v2"


@pytest.mark.req("DW-06")
async def test_the_purge_itself_asks_for_the_proof(start: Boot, monkeypatch: pytest.MonkeyPatch) -> None:
    async def believes(gates: Gates, workflow_uid: str) -> None:
        return None

    monkeypatch.setattr(Gates, "_prove_stops", believes)
    host = await start(Flow=never_ends)
    await host.create()
    await host.executing(steps=1)
    with pytest.raises(BackendUnavailable):
        await host.engine.gates.retire(WORKFLOW)
    assert len((await host.history()).steps) == 1
