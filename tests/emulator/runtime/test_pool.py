"""Contexts start, step and stop with evidence, on real workerd."""

import asyncio
import os
from pathlib import Path

import pytest

from emulator.contexts import BindingCall, ContextStart, RunnersBusy, StopEvidence
from emulator.runtime.identity import process_started
from emulator.runtime.pool import PoolSettings
from emulator.runtime.process import WorkerdFailed
from host.ports import BindingRecord, VersionRecord
from tests.emulator.runtime.conftest import DEADLINE_S, PATIENT, Pools, ScriptedHost


@pytest.mark.req("DW-21", "DW-34", "DW-39")
async def test_a_context_runs_one_step_and_is_stopped_by_ack(host: ScriptedHost) -> None:
    run = await host.run("return { got: await step.do('a', () => ({ b: 1 })), id: event.instanceId };")
    assert await run.result() == {"got": {"b": 1}, "id": "i-1"}
    assert run.frames[:2] == [["begin", 0, "a", 1, None], ["done", 1, "a", 1, '{"b":1}']]
    evidence = await run.started.stop()
    assert (evidence.kind, evidence.pid, evidence.at) == ("ack", run.started.pid, "2027-01-15T08:00:00.000Z")


@pytest.mark.req("DW-24")
async def test_a_process_is_used_again_with_a_fresh_isolate(pools: Pools) -> None:
    host = await pools.open(PoolSettings(1, stop=PATIENT))
    source = (
        "globalThis.n = (globalThis.n ?? 0) + 1; const n = globalThis.n; export class Flow { run() { return { n }; } }"
    )
    pids = set()
    for _ in range(5):
        run = await host.start(source)
        assert await run.result() == {"n": 1}
        await run.started.stop()
        pids.add(run.started.pid)
    assert len(pids) == 1


@pytest.mark.req("DW-22", "DW-24")
async def test_an_isolate_loaded_ahead_is_used_for_its_own_version_only(host: ScriptedHost) -> None:
    body = "return { v: this.env.V, id: event.instanceId };"
    for value in ("one", "one", "two", "two", "one"):
        run = await host.run(body, variables={"V": value})
        assert await run.result() == {"v": value, "id": "i-1"}
        await run.started.stop()


@pytest.mark.req("DW-42")
async def test_an_isolate_loaded_ahead_calls_in_the_name_of_the_context_it_serves(host: ScriptedHost) -> None:
    body = "return { id: (await this.env.WF.get('x')).id };"
    for _ in range(3):
        run = await host.run(body, bindings=(BindingRecord("WF", "workflow", "target"),))
        assert await run.result() == {"id": "WF"}
        assert host.calls.calls[-1].context_id == run.started.id
        await run.started.stop()


async def test_a_start_beyond_the_most_contexts_waits_for_one_to_end(pools: Pools) -> None:
    host = await pools.open(PoolSettings(1, max_contexts=1, stop=PATIENT))
    first = await host.run("await new Promise(() => {});")
    second = asyncio.create_task(host.run("return {};"))
    await asyncio.sleep(0.1)
    assert not second.done()
    await first.started.stop()
    assert await (await second).result() == {}


async def test_a_runner_is_recycled_after_its_share_of_contexts_and_the_pool_goes_on(pools: Pools) -> None:
    host = await pools.open(PoolSettings(1, recycle_after=2, stop=PATIENT))
    pids = []
    for _ in range(6):
        run = await host.run("return {};")
        await run.result()
        await run.started.stop()
        pids.append(run.started.pid)
    assert max(pids.count(pid) for pid in pids) == 2


async def test_a_runner_that_spun_is_not_used_again(pools: Pools) -> None:
    host = await pools.open(PoolSettings(1, stop=PATIENT))
    run = await host.run("while (true) {}")
    async with asyncio.timeout(60):
        while os.getpriority(os.PRIO_PROCESS, run.started.pid) == os.getpriority(os.PRIO_PROCESS, 0):
            await asyncio.sleep(0.01)
    os.kill(run.started.pid, 9)
    await run.loss()


async def test_a_closed_pool_refuses_and_leaves_no_process(pools: Pools) -> None:
    host = await pools.open()
    run = await host.run("await new Promise(() => {});")
    await host.pool.close()
    assert process_started(run.started.pid) is None
    with pytest.raises(RunnersBusy):
        await host.run("return {};")


@pytest.mark.req("DW-39")
async def test_code_that_is_not_there_is_a_loss_that_says_so(host: ScriptedHost, tmp_path: Path) -> None:
    run = await host.run("return {};")
    await run.result()
    await run.started.stop()
    version = VersionRecord("v", "w", "0" * 64, {}, ())
    lost: asyncio.Future[tuple[StopEvidence, str]] = asyncio.get_running_loop().create_future()
    start = ContextStart("other", version, "Flow", "i", None, (), None)
    await host.pool.start(start, lambda text: None, lambda evidence, loss: lost.set_result((evidence, str(loss))))
    evidence, why = await asyncio.wait_for(lost, DEADLINE_S)
    assert "has no readable file index.json" in why
    assert not evidence.is_own_fault  # not a death of the instance


@pytest.mark.req("DW-18")
async def test_a_call_whose_answer_fails_is_backend_unavailable(
    host: ScriptedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(call: BindingCall) -> str:
        raise RuntimeError("secret of the host")

    monkeypatch.setattr(host.calls, "answer", fail)
    run = await host.run(
        "return await this.env.WF.get('x').catch((e) => ({ name: e.name, message: e.message }));",
        bindings=(BindingRecord("WF", "workflow", "target"),),
    )
    assert await run.result() == {"name": "backend_unavailable", "message": "The host could not answer."}
    await run.started.stop()


@pytest.mark.req("DW-18")
async def test_many_calls_at_once_are_all_answered_and_few_are_before_the_host(
    host: ScriptedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, most = 0, 0

    async def answer(call: BindingCall) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return '["ok","x"]'

    monkeypatch.setattr(host.calls, "answer", answer)
    run = await host.run(
        "const all = []; for (let i = 0; i < 500; i++) all.push(this.env.WF.get('x')); return { n: (await Promise.all(all)).length };",
        bindings=(BindingRecord("WF", "workflow", "target"),),
    )
    assert await run.result() == {"n": 500}
    assert 1 <= most <= 64
    await run.started.stop()


async def test_a_process_of_an_earlier_host_is_proven_gone(host: ScriptedHost) -> None:
    evidence = await host.pool.end_lost(2**22, "no such start")
    assert (evidence.kind, evidence.exit_status, evidence.pid) == ("lost_host", None, 2**22)


async def test_a_program_that_is_no_workerd_is_told_in_one_sentence(tmp_path: Path) -> None:
    for program in ("/bin/false", "/nowhere"):
        pools = Pools(Path(program), tmp_path / program.strip("/").replace("/", "-"))
        with pytest.raises(WorkerdFailed, match=r"workerd (ended with status 1|gave no channel|could not be started)"):
            await pools.open()
        await pools.close()
