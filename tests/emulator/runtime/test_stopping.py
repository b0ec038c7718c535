"""Stopping is physical: by ack or by the end of the process, with evidence, and nothing is heard afterwards (DW-39)."""

import asyncio
import os
import sys
import time
from contextlib import suppress

import pytest

from emulator.runtime.identity import process_started
from emulator.runtime.kernels import OutboundMode, OutboundPolicy
from emulator.runtime.pool import PoolSettings
from emulator.runtime.runner import StopRules
from tests.emulator.runtime.conftest import DEADLINE_S, PATIENT, Pools, ScriptedHost

LOADED_S = 5.0  # a tenth of this on an idle machine; without the kill it would be never
SPIN = "while (true) {}"


@pytest.mark.req("DW-39", "DW-42")
async def test_no_frame_follows_the_ack_of_a_flooding_context(host: ScriptedHost) -> None:
    source = (
        "const real = [];  export class Flow { run(event, step) { const go = () => { for (let i = 0; i < 50; i++)"
        " step.do('', () => {}).catch(() => {}); step.do('a', () => new Promise(() => {})); };"
        " setInterval(() => { for (let i = 0; i < 20; i++) real.push(fetch('http://127.0.0.1:1/').catch(() => {})); }, 1);"
        " go(); return new Promise(() => {}); } }"
    )
    for _ in range(10):
        run = await host.start(source)
        await run.frame("begin")
        evidence = await run.started.stop()
        assert evidence.kind in ("ack", "exit")
        heard = len(run.frames)
        await asyncio.sleep(0.01)
        assert len(run.frames) == heard


@pytest.mark.req("DW-39")
@pytest.mark.parametrize(
    "life",
    [
        "setInterval(beat, 1); await new Promise(() => {});",
        "while (true) { await beat(); }",
        "setInterval(beat, 1); return {};",
        "const turn = () => beat().then(turn); setTimeout(turn, 1); await step.sleep('s', 60);",
    ],
)
async def test_stopped_code_acts_no_more(pools: Pools, life: str) -> None:
    beats = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal beats
        with suppress(asyncio.IncompleteReadError):  # stopped between its connection and its request
            await reader.readuntil(b"\r\n\r\n")
            beats += 1
            writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        host = await pools.open(outbound=OutboundPolicy(OutboundMode.LOCAL))
        run = await host.run(f"const beat = () => fetch('http://127.0.0.1:{port}/').catch(() => {{}}); {life}")
        async with asyncio.timeout(DEADLINE_S):
            while beats < 5:
                await asyncio.sleep(0.002)
        assert (await run.started.stop()).kind == "ack"
        await asyncio.sleep(0.05)  # what was on its way arrives
        heard = beats
        await asyncio.sleep(0.15)
        assert beats == heard


@pytest.mark.req("DW-39", "DW-17")
@pytest.mark.parametrize(
    "body",
    [
        SPIN,
        "await step.do('a', () => { while (true) {} });",
        "const turn = () => Promise.resolve().then(turn); turn(); await new Promise(() => {});",
        "await step.do('a', () => new Proxy({}, { ownKeys() { while (true) {} } }));",
        "return { then() { while (true) {} } };",
    ],
)
async def test_a_spinning_context_is_killed_and_nobody_else_waits(pools: Pools, body: str) -> None:
    host = await pools.open(PoolSettings(4))
    spinning = await host.run(body)
    await asyncio.sleep(0.02)
    asked = time.perf_counter()
    other = await host.run("return await step.do('a', () => ({ ok: 1 }));")
    assert await other.result() == {"ok": 1}
    assert time.perf_counter() - asked < LOADED_S
    asked = time.perf_counter()
    evidence = await spinning.started.stop()
    assert time.perf_counter() - asked < LOADED_S
    assert (evidence.kind, evidence.exit_status) == ("exit", -9)
    assert process_started(evidence.pid) is None
    assert other.started.pid != evidence.pid
    await other.started.stop()
    again = await host.run("return {};")
    assert await again.result() == {}


@pytest.mark.req("DW-39")
async def test_stopping_twice_gives_one_evidence(host: ScriptedHost) -> None:
    run = await host.run("await new Promise(() => {});")
    first, second = await asyncio.gather(run.started.stop(), run.started.stop())
    assert first == second == await run.started.stop()


@pytest.mark.req("DW-39")
async def test_a_stop_before_the_isolate_is_loaded_is_acknowledged(host: ScriptedHost) -> None:
    run = await host.run("return {};")
    assert (await run.started.stop()).kind == "ack"
    assert run.frames == []
    assert await (await host.run("return { n: 1 };")).result() == {"n": 1}


@pytest.mark.req("DW-39")
async def test_the_strict_rule_ends_the_process_after_every_context(pools: Pools) -> None:
    host = await pools.open(PoolSettings(2, stop=StopRules(strict=True)))
    pids = set()
    for _ in range(3):
        run = await host.run("return {};")
        assert await run.result() == {}
        evidence = await run.started.stop()
        assert (evidence.kind, evidence.exit_status) == ("exit", -9)
        assert process_started(evidence.pid) is None
        pids.add(evidence.pid)
    assert len(pids) == 3


@pytest.mark.req("DW-39")
async def test_a_runner_that_dies_is_told_with_its_exit_status(host: ScriptedHost) -> None:
    run = await host.run("await new Promise(() => {});")
    os.kill(run.started.pid, 9)
    evidence, why = await run.loss()
    assert (evidence.kind, evidence.exit_status, evidence.pid) == ("exit", -9, run.started.pid)
    assert why == "the runner's process was killed, by the system or from outside (exit status -9)"
    assert await run.started.stop() == evidence


@pytest.mark.req("DW-39")
async def test_the_watchdog_kills_code_that_burns_processor_time_without_a_pause(pools: Pools) -> None:
    host = await pools.open(PoolSettings(2, context_cpu_limit_s=0.3))
    run = await host.run(SPIN)
    evidence, why = await run.loss()
    assert evidence.exit_status == -9
    assert why.startswith("the code ran for 0.3 s of processor time without a pause")


@pytest.mark.req("DW-39")
async def test_the_watchdog_leaves_long_work_with_pauses_alone(pools: Pools) -> None:
    host = await pools.open(PoolSettings(2, context_cpu_limit_s=0.3))
    run = await host.run(
        "const until = Date.now() + 1500; let n = 0; while (Date.now() < until) { for (let i = 0; i < 1e6; i++) n += i;"
        " await new Promise((r) => setTimeout(r, 0)); } return {};"
    )
    assert await run.result() == {}
    assert not run.lost.done()


@pytest.mark.req("DW-39")
async def test_an_isolate_beyond_its_heap_ends_its_own_process_only(pools: Pools) -> None:
    host = await pools.open(PoolSettings(2, context_memory_mib=32))
    other = await host.run("await new Promise((r) => setTimeout(r, 50)); return {};")
    hog = await host.run("const a = []; while (true) a.push(new Array(1000).fill(a.length));")
    evidence, _ = await hog.loss()
    assert evidence.kind == "exit"
    assert await other.result() == {}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux bounds another process's memory")
@pytest.mark.parametrize(
    "make",
    ["new ArrayBuffer(2 ** 26)", "new SharedArrayBuffer(2 ** 26)", "new WebAssembly.Memory({ initial: 1024 }).buffer"],
)
@pytest.mark.req("DW-39")
async def test_buffers_beyond_the_bound_fail_in_the_app_and_the_process_lives(pools: Pools, make: str) -> None:
    host = await pools.open(PoolSettings(1, context_memory_mib=64, stop=PATIENT))
    run = await host.run(
        f"const kept = []; try {{ while (kept.length < 64) {{ const b = {make}; kept.push(b); }} }}"
        " catch (e) { return { failed: e.name, kept: kept.length }; } return { failed: 'never', kept: kept.length };"
    )
    result = await run.result()
    assert isinstance(result, dict)
    assert result["failed"] == "RangeError", result
    evidence = await run.started.stop()
    assert evidence.kind == "ack"
