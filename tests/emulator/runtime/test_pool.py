"""Contexts start, step and stop with evidence, on real workerd."""

import pytest

from tests.emulator.runtime.conftest import ScriptedHost


@pytest.mark.req("DW-21", "DW-34", "DW-39")
async def test_a_context_runs_one_step_and_is_stopped_by_ack(host: ScriptedHost) -> None:
    run = await host.run("return { got: await step.do('a', () => ({ b: 1 })), id: event.instanceId };")
    assert await run.result() == {"got": {"b": 1}, "id": "i-1"}
    assert run.frames[:2] == [["begin", 0, "a", 1, None], ["done", 1, "a", 1, '{"b":1}']]
    evidence = await run.started.stop()
    assert (evidence.kind, evidence.pid, evidence.at) == ("ack", run.started.pid, "2027-01-15T08:00:00.000Z")
