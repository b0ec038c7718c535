"""The two tiers of runners: contexts alone in a process, and beyond a bound together, at little cost to each other."""

import asyncio
import sys
import time
from collections import Counter

import pytest

from emulator.contexts import ContextStart
from emulator.runtime.pool import PoolSettings
from emulator.runtime.runner import StopRules
from emulator.runtime.seclusion import Seclusion
from host.ports import BindingRecord, VersionRecord
from tests.emulator.runtime.conftest import DEADLINE_S, PATIENT, Pools, Run, ScriptedHost

WAIT = "await new Promise(() => {});"
SPIN = "while (true) {}"
LOADED_S = 5.0  # a tenth of this on an idle machine


async def start_many(host: ScriptedHost, bodies: list[str]) -> list[Run]:
    """Contexts of as many instances."""
    return list(await asyncio.gather(*(host.run(body, instance_id=f"i{n}") for n, body in enumerate(bodies))))


def pids(runs: list[Run]) -> Counter[int]:
    return Counter(run.started.pid for run in runs)


async def test_contexts_beyond_the_runners_share_processes_and_the_first_are_alone(pools: Pools) -> None:
    host = await pools.open(PoolSettings(3, share=4, stop=PATIENT))
    runs = await start_many(host, [WAIT] * 13)
    assert sorted(pids(runs).values()) == [1, 1, 1, 2, 4, 4]
    assert sorted(count for _, count in host.pool.census()) == [1, 1, 1, 2, 4, 4]


async def test_a_context_in_a_shared_process_is_stopped_alone(pools: Pools) -> None:
    host = await pools.open(PoolSettings(1, stop=PATIENT))
    runs = await start_many(host, [WAIT, WAIT, "return await step.do('a', () => ({ ok: 1 }));"])
    _, first, second = runs
    assert first.started.pid == second.started.pid
    evidence = await first.started.stop()
    assert (evidence.kind, evidence.pid) == ("ack", second.started.pid)
    assert await second.result() == {"ok": 1}
    assert not second.lost.done()


@pytest.mark.req("DW-42", "DW-24")
async def test_contexts_in_one_process_speak_each_for_itself(pools: Pools) -> None:
    host = await pools.open(PoolSettings(1, stop=PATIENT))
    body = (
        "globalThis.n = (globalThis.n ?? 0) + 1; const id = event.instanceId; await step.do(id, () => ({ id }));"
        " return { n: globalThis.n, call: (await this.env.WF.get(id)).id };"
    )
    bindings = (BindingRecord("WF", "workflow", "target"),)
    runs = await asyncio.gather(*(host.run(body, instance_id=f"i{n}", bindings=bindings) for n in range(8)))
    for number, run in enumerate(runs):
        assert await run.result() == {"n": 1, "call": "WF"}
        assert [frame[2] for frame in run.frames[:2]] == [f"i{number}"] * 2
    assert {call.context_id for call in host.calls.calls} == {run.started.id for run in runs}


@pytest.mark.req("DW-39")
async def test_a_spinner_cuts_its_siblings_once_and_all_of_them_restart_alone(pools: Pools) -> None:
    host = await pools.open(PoolSettings(1, context_cpu_limit_s=0.6, stop=PATIENT))
    first, *others = await start_many(host, [WAIT, *[WAIT] * 4])
    begun_s = time.perf_counter()
    spinner = await host.run(SPIN, instance_id="spinner")
    assert spinner.started.pid == others[0].started.pid
    for run in (*others, spinner):
        evidence, why = await run.loss()
        assert (evidence.kind, evidence.exit_status, evidence.is_own_fault) == ("exit", -9, False)
        assert "ran without a pause" in why
    assert time.perf_counter() - begun_s < LOADED_S
    assert not first.lost.done()
    again = await start_many(host, [WAIT, *[WAIT] * 4])
    assert len(pids(again[1:])) == 4
    spinning = await host.run(SPIN, instance_id="spinner")
    assert pids([*again, spinning])[spinning.started.pid] == 1
    evidence, _ = await spinning.loss()
    assert evidence.is_own_fault
    await asyncio.gather(*(run.started.stop() for run in again))
    later = await start_many(host, [WAIT, *[WAIT] * 4])
    quiet = await host.run(WAIT, instance_id="spinner")
    assert max(pids(later[1:]).values()) == 4
    assert pids([*later, quiet])[quiet.started.pid] == 1


@pytest.mark.req("DW-39")
async def test_code_that_keeps_its_process_busy_while_it_is_evaluated_runs_alone_from_then_on(pools: Pools) -> None:
    host = await pools.open(PoolSettings(1, context_cpu_limit_s=20, stop=PATIENT))
    held = await host.run(WAIT)
    slow = "let n = 0; for (let i = 0; i < 8e8; i++) n += i; export class Flow { async run() { return { n: 1 }; } }"
    cut = await host.start(slow, instance_id="a")
    await cut.loss()
    assert await (await host.start(slow, instance_id="a")).result() == {"n": 1}
    others = await asyncio.gather(*(host.start(slow, instance_id=f"b{n}") for n in range(2)))
    assert len(pids(list(others))) == 2
    assert [await run.result() for run in others] == [{"n": 1}] * 2
    assert not held.lost.done()


@pytest.mark.req("DW-39")
async def test_long_work_with_pauses_is_left_alone_in_a_shared_process(pools: Pools) -> None:
    host = await pools.open(PoolSettings(1, stop=PATIENT))
    busy = (
        "const until = Date.now() + 1000; let n = 0; while (Date.now() < until) { for (let i = 0; i < 1e6; i++) n += i;"
        " await new Promise((r) => setTimeout(r, 0)); } return {};"
    )
    runs = await start_many(host, [WAIT, busy, busy, WAIT])
    assert await runs[1].result() == await runs[2].result() == {}
    assert not any(run.lost.done() for run in runs)


async def test_sixteen_contexts_that_start_at_once_are_not_taken_for_a_loop(pools: Pools) -> None:
    host = await pools.open(PoolSettings(1, stop=PATIENT))
    for _ in range(2):
        runs = await start_many(host, ["return await step.do('a', () => ({ ok: 1 }));"] * 40)
        assert [await run.result() for run in runs] == [{"ok": 1}] * 40
        await asyncio.gather(*(run.started.stop() for run in runs))


@pytest.mark.req("DW-39")
async def test_under_the_strict_rule_nothing_is_shared(pools: Pools) -> None:
    host = await pools.open(PoolSettings(2, stop=StopRules(strict=True)))
    runs = await start_many(host, [WAIT] * 5)
    assert len(pids(runs)) == 5


async def test_no_context_waits_for_one_that_has_started(pools: Pools) -> None:
    host = await pools.open(PoolSettings(2, stop=PATIENT))
    parents = await start_many(host, [WAIT] * 20)
    async with asyncio.timeout(DEADLINE_S):
        children = await start_many(host, ["return {};"] * 20)
        assert [await run.result() for run in children] == [{}] * 20
    assert not any(run.lost.done() for run in parents)


async def test_processes_beyond_the_runners_go_when_they_are_not_needed(
    pools: Pools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("emulator.runtime.pool._LINGER_S", 0.05)
    host = await pools.open(PoolSettings(2, share=2, stop=PATIENT))
    runs = await start_many(host, [WAIT] * 8)
    assert len(host.pool.census()) == 5
    await asyncio.gather(*(run.started.stop() for run in runs))
    async with asyncio.timeout(DEADLINE_S):
        while len(host.pool.census()) > 2:
            await asyncio.sleep(0.01)
    assert await (await host.run("return {};")).result() == {}


@pytest.mark.req("DW-39")
@pytest.mark.parametrize("count", [1, 3])
async def test_a_context_that_hangs_is_ended_after_the_wall_limit_and_one_that_steps_is_not(
    pools: Pools, count: int
) -> None:
    host = await pools.open(PoolSettings(1, context_wall_limit_s=1.5, stop=PATIENT))
    stepping = "for (let i = 0; i < 30; i++) await step.do('s' + i, () => new Promise((r) => setTimeout(r, 100)));"
    runs = await start_many(host, [stepping + "return {};", *[WAIT] * count])
    for run in runs[1:]:
        evidence, why = await run.loss()
        assert (evidence.kind, why) == ("ack", "the code gave no sign for 1.5 s")
    assert await runs[0].result() == {}


async def test_a_context_that_only_waits_is_left_alone_without_a_wall_limit(pools: Pools) -> None:
    host = await pools.open(PoolSettings(1, context_cpu_limit_s=0.2, stop=PATIENT))
    runs = await start_many(host, ["await new Promise((r) => setTimeout(r, 1500)); return {};"] * 3)
    assert [await run.result() for run in runs] == [{}] * 3


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux bounds another process's memory")
@pytest.mark.req("DW-39")
async def test_a_memory_bomb_in_a_shared_process_takes_no_more_than_its_siblings_contexts(pools: Pools) -> None:
    host = await pools.open(PoolSettings(1, context_memory_mib=48, stop=PATIENT))
    bomb = "const kept = []; while (true) { kept.push(new Array(1e5).fill(kept.length)); await new Promise((r) => setTimeout(r)); }"
    first, sibling, hog = await start_many(host, [WAIT, WAIT, bomb])
    assert sibling.started.pid == hog.started.pid
    await asyncio.gather(sibling.loss(), hog.loss())
    assert not first.lost.done()
    again = await host.run("return {};", instance_id="i1")
    assert await again.result() == {}


def test_what_is_secluded_is_remembered_up_to_a_bound() -> None:
    def start(instance: str, code: str = "c") -> ContextStart:
        return ContextStart("x", VersionRecord("v", "w", code, {}, ()), "Flow", instance, None, (), None)

    seclusion = Seclusion(most=2)
    for name in ("a", "b", "c"):
        seclusion.seclude(start(name))
    assert [seclusion.requires(start(name)) for name in "abc"] == [False, True, True]
    seclusion.seclude_once(start("d"))
    seclusion.release(start("d"))
    seclusion.release(start("c"))
    assert [seclusion.requires(start(name)) for name in "cd"] == [True, False]
    seclusion.seclude_code(start("x", "slow"))
    assert seclusion.requires(start("y", "slow"))
