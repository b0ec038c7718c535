"""The wire form of calls on a Workflow binding."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from emulator.bindings.workflow import WorkflowCalls
from emulator.contexts import BindingCall
from host.model.time import ControlledClock
from tests.emulator.workflow.bodies import waits_for_go
from tests.emulator.workflow.hosts import START_MS, WORKFLOW, Host, boot


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    host = await boot(tmp_path / "e.sqlite", ControlledClock.frozen(START_MS), Flow=waits_for_go)
    await host.deploy("v1")
    yield host
    await host.close()


async def _call(host: Host, body: Any, target: str = WORKFLOW) -> list[Any]:
    text = body if isinstance(body, str) else json.dumps(body)
    reply = await WorkflowCalls(host.engine.instances).answer(BindingCall("v1", "WF", "workflow", target, None, text))
    found = json.loads(reply)
    assert isinstance(found, list)
    return found


@pytest.mark.req("DW-10", "DW-12")
async def test_an_instance_is_driven_by_calls_from_create_to_its_output(host: Host) -> None:
    assert await _call(host, ["create", "i", '{"a":1}']) == ["ok", "i"]
    assert await _call(host, ["get", "i"]) == ["ok", "i"]
    await host.idle()
    assert await _call(host, ["status", "i"]) == ["ok", "waiting", None, None, None]
    assert await _call(host, ["sendEvent", "i", "go", '{"n":2}']) == ["ok"]
    await host.idle()
    assert await _call(host, ["status", "i"]) == ["ok", "complete", '{"got":2}', None, None]
    assert await _call(host, ["terminate", "i"]) == ["ok"]
    verb, issued = await _call(host, ["create", None, None])
    assert verb == "ok" and issued


@pytest.mark.req("DW-11", "DW-15", "DW-16", "DW-18")
async def test_refusals_carry_their_exact_names(host: Host) -> None:
    await _call(host, ["create", "i", None])
    expected = {
        "instance_exists": ["create", "i", None],
        "invalid_params": ["create", "j", "[]"],
        "unknown_instance": ["get", "j"],
        "TypeError": ["sendEvent", "i", "", None],
        "document_too_large": ["create", "j", '{"a":"' + "x" * 1_048_576 + '"}'],
    }
    for name, body in expected.items():
        assert (await _call(host, body))[:2] == ["error", name]
    assert (await _call(host, ["create", "j", None], "unknown-workflow"))[:2] == ["error", "backend_unavailable"]
    await _call(host, ["terminate", "i"])
    assert (await _call(host, ["sendEvent", "i", "go", None]))[:2] == ["error", "instance_terminal"]


@pytest.mark.parametrize(
    "body", ["x", "{}", "[]", '["create"]', '["get",1]', '["get",null]', '[["get"],"i"]', "[" * 99_999, '[null,"a"]']
)
async def test_a_body_that_is_no_call_is_refused(host: Host, body: str) -> None:
    assert (await _call(host, body))[:2] == ["error", "TypeError"]


async def test_a_store_that_fails_is_told_as_unavailable(host: Host) -> None:
    await host.engine.close()
    await host.file.close()
    host.is_gone = True
    reply = await _call(host, ["create", "k", None])
    assert reply[:2] == ["error", "backend_unavailable"]
