"""What the log tells of failed attempts of steps, on a real runner: which step, which attempt, what and where."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from emulator.contexts import StepRecord
from emulator.runtime.app_log import AppLine, AppLog
from emulator.runtime.kernels import KernelSettings
from emulator.runtime.pool import PoolSettings, RunnerPool
from emulator.runtime.process import Launcher
from host.model.time import ControlledClock, RealTime
from tests.emulator.runtime.conftest import NOW_MS, NoCalls, Run, ScriptedHost
from tests.emulator.runtime.test_app_log import lines

POLICY = '{"backoff":"constant","initialDelaySeconds":0,"maxAttempts":3,"maxDelaySeconds":43200}'
FLAKY = """export class Flow {
  async run(event, step) {
    await step.do("flaky", async () => {
      const o = undefined;
      return { x: o.y };
    });
  }
}
"""
UNDEFINED = "Cannot read properties of undefined (reading 'y')"


@pytest_asyncio.fixture
async def logged(launcher: Launcher, said: AppLog, tmp_path: Path) -> AsyncIterator[ScriptedHost]:
    """A scripted host whose contexts' lines are in `said`."""
    calls = NoCalls()
    kernel = KernelSettings(tmp_path / "code", tags=said.tags)
    kernel.code_dir.mkdir()
    pool = RunnerPool(launcher, kernel, PoolSettings(1), calls, ControlledClock.frozen(NOW_MS), RealTime())
    await pool.open()
    yield ScriptedHost(pool, kernel.code_dir, calls)
    await pool.close()


async def told(run: Run, said: AppLog, count: int) -> list[AppLine]:
    """The end of the run is awaited, then its lines."""
    await asyncio.wait_for(run.ended, 20)
    return await lines(said, count)


@pytest.mark.req("DW-34")
@pytest.mark.parametrize("attempt", [1, 2])
async def test_a_failed_attempt_tells_its_step_its_error_and_where(
    logged: ScriptedHost, said: AppLog, attempt: int
) -> None:
    begun = [] if attempt == 1 else [StepRecord("flaky", f"pending:do:{attempt}:{POLICY}", None)]
    run = await logged.start(FLAKY, steps=begun)
    failed, uncaught = await told(run, said, 2)
    assert (failed.level, failed.instance_id, failed.context_id) == ("error", "i-1", "c1")
    assert failed.message == f'step "flaky", attempt {attempt}: TypeError: {UNDEFINED}\n    at main.js:5:21'
    assert uncaught.message == f"uncaught in run: step_failed: {UNDEFINED}"
    assert await run.frame("failed") == ["failed", 1, "flaky", attempt, UNDEFINED]


@pytest.mark.req("DW-34")
async def test_a_failure_of_the_history_is_not_told_again(logged: ScriptedHost, said: AppLog) -> None:
    run = await logged.start(FLAKY, steps=[StepRecord("flaky", "failed", "once")])
    await asyncio.wait_for(run.ended, 20)
    (line,) = await lines(said, 1)
    assert line.message == "uncaught in run: step_failed: once"


@pytest.mark.req("DW-34", "MW-15", "HA-61")
async def test_a_failed_attempt_tells_no_secret_and_runs_no_getter(logged: ScriptedHost, said: AppLog) -> None:
    thrown = "Object.defineProperty(new Error(env.KEY + '!'), 'name', { get() { console.log('run'); } })"
    source = (
        "export class Flow { constructor(env) { this.env = env; } async run(event, step) { const { env } = this;"
        f" await step.do('a' + env.KEY, () => {{ throw {thrown}; }}).catch(() => {{}}); }} }}"
    )
    run = await logged.start(source, secrets={"KEY": "honour"})
    (line,) = await told(run, said, 1)
    assert line.message.partition("\n")[0] == 'step "a[secret]", attempt 1: Error: [secret]!'
    assert (await run.frame("failed"))[4] == "honour!"


MISTAKES = {
    "do('a', () => {}, { retries: 3 })": 'a retry policy has an unknown member, "retries": it may have maxAttempts,'
    " initialDelaySeconds, backoff, maxDelaySeconds",
    "do('a', () => {}, { [Symbol.iterator]: 3 })": "a retry policy has an unknown member, a symbol: it may have maxAttempts,"
    " initialDelaySeconds, backoff, maxDelaySeconds",
    "do('a', () => {}, { maxAttempts: 0 })": "maxAttempts must be an integer from 1 to 100",
    "do('a', 'b')": "the effect of a step must be a function",
    "sleep('a', '10 seconds')": "seconds must be an integer from 0 to 31536000",
    "waitForEvent('a', {})": "type must be a string",
}


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.req("DW-34", "DW-35", "DW-36")
@pytest.mark.parametrize("call", list(MISTAKES))
async def test_a_refused_argument_is_told_with_its_step(shared: ScriptedHost, call: str) -> None:
    run = await shared.run(f"await step.{call};")
    assert await run.end() == ["threw", f'step "a": {MISTAKES[call]}', None]


PLACES = {
    "{ a: [1, 2, 3, { b: new Date(0) }] }": "an object that is not plain at .a[3].b",
    "{ a: [[undefined]] }": "undefined inside at .a[0][0]",
    "{ a: { 'b c': { f() {} } } }": 'a function at .a["b c"].f',
    "{ '\\udc00': 1 }": 'a lone surrogate at ["\\udc00"]',
    "{ a: {}, b: [, 1] }": "a hole or an extra array property at .b",
    "{ a: {}, [Symbol.iterator]: 1 }": "a symbol",
}


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.req("DW-14")
@pytest.mark.parametrize("result", list(PLACES))
async def test_what_is_no_document_is_told_with_its_place(shared: ScriptedHost, result: str) -> None:
    run = await shared.run(f"await step.do('a', () => ({result}));")
    assert await run.end() == ["threw", f"the document holds {PLACES[result]}", "a"]


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.req("DW-14")
async def test_of_a_deep_place_the_end_is_told(shared: ScriptedHost) -> None:
    run = await shared.run(
        "let d = { last: undefined }; for (let i = 0; i < 90000; i++) d = { d }; await step.do('a', () => d);"
    )
    message = str((await run.end())[1])
    assert message.startswith("the document holds undefined inside at ....d.d.d")
    assert message.endswith(".d.d.last")
    assert len(message) < 300
