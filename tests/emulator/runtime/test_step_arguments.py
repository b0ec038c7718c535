"""What app code may give to a step: everything else rejects with a TypeError before anything is recorded."""

import pytest

from emulator.contexts import StepRecord
from tests.emulator.runtime.conftest import ScriptedHost

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.req("DW-30", "DW-32", "DW-34", "DW-35", "DW-36")
@pytest.mark.parametrize(
    "call",
    [
        "step.do('', () => {})",
        "step.do('x'.repeat(257), () => {})",
        "step.do('\\ud800', () => {})",
        "step.do(1, () => {})",
        "step.do({ toString() { return 'a' } }, () => {})",
        "step.do()",
        "step.do('n')",
        "step.do('n', {})",
        "step.do('n', () => {}, null)",
        "step.do('n', () => {}, {})",
        "step.do('n', () => {}, [])",
        "step.do('n', () => {}, { maxAttempts: 0 })",
        "step.do('n', () => {}, { maxAttempts: 101 })",
        "step.do('n', () => {}, { maxAttempts: 1.5 })",
        "step.do('n', () => {}, { maxAttempts: '1' })",
        "step.do('n', () => {}, { maxAttempts: 1, more: 1 })",
        "step.do('n', () => {}, { maxAttempts: 1, backoff: 'linear' })",
        "step.do('n', () => {}, { maxAttempts: 1, initialDelaySeconds: 43201 })",
        "step.do('n', () => {}, { maxAttempts: 1, maxDelaySeconds: -1 })",
        "step.do('n', () => {}, { get maxAttempts() { return 1 } })",
        "step.do('n', () => {}, Object.create({ maxAttempts: 1 }))",
        "step.sleep('n')",
        "step.sleep('n', -1)",
        "step.sleep('n', 31536001)",
        "step.sleep('n', 0.5)",
        "step.sleep('n', NaN)",
        "step.sleep('n', '1')",
        "step.waitForEvent('n')",
        "step.waitForEvent('n', {})",
        "step.waitForEvent('n', { type: 'go' })",
        "step.waitForEvent('n', { type: '', timeoutSeconds: 1 })",
        "step.waitForEvent('n', { type: 'go', timeoutSeconds: 0 })",
        "step.waitForEvent('n', { type: 'go', timeoutSeconds: 31536001 })",
        "step.waitForEvent('n', { type: 'go', timeoutSeconds: 1, more: 1 })",
    ],
)
async def test_bad_arguments_reject_with_a_type_error_and_count_no_step(shared: ScriptedHost, call: str) -> None:
    """subtle-points, Workflows 6"""
    run = await shared.run(
        f"const p = {call}; const bad = await p.catch((e) => e instanceof TypeError);"
        "await step.do('n', () => {}); return { bad };"
    )
    assert await run.result() == {"bad": True}
    assert run.verbs() == ["begin", "done", "return"]


@pytest.mark.req("DW-30")
async def test_a_name_is_counted_in_scalar_values(shared: ScriptedHost) -> None:
    run = await shared.run("await step.do('\\u{1f600}'.repeat(256), () => {}); return {};")
    assert await run.result() == {}


@pytest.mark.req("DW-32")
async def test_bad_arguments_of_a_pending_step_are_refused_and_leave_it_pending(shared: ScriptedHost) -> None:
    """subtle-points, Workflows 6"""
    run = await shared.run(
        "const bad = await step.do('a', () => {}, {}).catch((e) => e.name); await step.do('a', () => {}); return { bad };",
        steps=[StepRecord("a", "pending:do:1:", None)],
    )
    assert await run.result() == {"bad": "TypeError"}


@pytest.mark.req("DW-32", "DW-30")
async def test_a_completed_name_is_replayed_whatever_else_is_given_and_a_bad_name_is_never_looked_up(
    shared: ScriptedHost,
) -> None:
    """subtle-points, Workflows 6"""
    calls = (
        "step.do('a', () => {}, {})",
        "step.do('a', 'no function')",
        "step.do('a')",
        "step.sleep('a', 'long')",
        "step.waitForEvent('a', 1)",
        "step.do('f', null, {}).catch((e) => e.name)",
        "step.do('', () => {}).catch((e) => e.name)",
        "step.do(['a'], () => {}).catch((e) => e.name)",
    )
    run = await shared.run(
        "const got = []; "
        + " ".join(f"got.push((await {call}) ?? 'undefined');" for call in calls)
        + " return { got };",
        steps=[StepRecord("a", "succeeded", '{"n":1}'), StepRecord("f", "failed", "boom")],
    )
    n = {"n": 1}
    assert await run.result() == {"got": [n, n, n, "undefined", n, "step_failed", "TypeError", "TypeError"]}
    assert run.verbs() == ["return"]
