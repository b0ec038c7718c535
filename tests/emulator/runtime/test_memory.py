"""Memory bombs end alone: whatever they are made of, the host's memory and that of other contexts stay flat (DW-39)."""

import asyncio
import json
import os
import sys
from collections.abc import Callable

import pytest

from emulator.contexts import StepRecord
from emulator.runtime.identity import figures_of
from emulator.runtime.pool import PoolSettings
from tests.emulator.runtime.conftest import PATIENT, Answer, Frame, Pools, Run, ScriptedHost, durable

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux bounds another process's memory"),
    pytest.mark.req("DW-39"),
]

MIB = 1024 * 1024
MEMORY_MIB = 64
BASE_MIB = 128  # a bare runner, and what the system counts late
FLAT_MIB = 48  # what a test host may gain by its own doing
WAIT = "await new Promise(() => {});"
PAUSE = "await new Promise((resolve) => setTimeout(resolve));"
MAKES = {
    "strings": "new TextDecoder().decode(new Uint8Array(1e6).fill(97 + kept.length % 20))",
    "ropes": "('x' + kept.length).repeat(1e5).toUpperCase()",
    "arrays": "new Array(1e5).fill(kept.length + 0.5)",
    "objects": "Array.from({ length: 1e4 }, (_, n) => ({ n, kept: [n] }))",
    "maps": "new Map(Array.from({ length: 1e4 }, (_, n) => [n, {}]))",
    "ArrayBuffers": "new Uint8Array(4 * 2 ** 20).fill(1)",
    "WebAssembly memory": "new Uint8Array(new WebAssembly.Memory({ initial: 64, maximum: 64 }).buffer).fill(1)",
    "bigints": "1n << BigInt(8e6 + kept.length)",
    "streams": "new Response(new Uint8Array(1e6).fill(1)).body",
    "blobs": "new Blob([new Uint8Array(1e6).fill(1)])",
    "headers": "new Headers([['x', String(kept.length).repeat(1e5)]])",
    "symbols": "Symbol(String(kept.length).repeat(1e5))",
    "WebAssembly tables": "new WebAssembly.Table({ initial: 1e6, element: 'externref' }, kept)",
    "copies": "structuredClone(new Array(1e5).fill(kept.length + 0.5))",
    "an inflated stream": (
        "await new Response(new Response(new Uint8Array(8e6)).body.pipeThrough(new CompressionStream('gzip'))"
        ".pipeThrough(new DecompressionStream('gzip'))).arrayBuffer()"
    ),
    "promises": "Array.from({ length: 1e4 }, () => new Promise(() => {}).then(() => kept))",
}


def rss_mib(pid: int) -> float:
    figures = figures_of(pid)
    return 0.0 if figures is None else figures.rss_bytes / MIB


async def peak_until(ended: Callable[[], bool], pids: list[int], begun_mib: list[float]) -> list[float]:
    """By how much each process grew at most until the claim holds."""
    peaks = [0.0] * len(pids)
    async with asyncio.timeout(100):
        while not ended():
            peaks = [max(p, rss_mib(pid) - begun) for p, pid, begun in zip(peaks, pids, begun_mib, strict=True)]
            await asyncio.sleep(0.01)
    return peaks


def bomb(make: str) -> str:
    """Keeps what it makes, without an end of its own; pauses, so that it is no loop."""
    return f"const kept = []; for (;;) {{ kept.push({make}); if (kept.length % 4 === 0) {PAUSE} }}"


async def explode(host: ScriptedHost, neighbour: Run, body: str) -> tuple[Run, list[float]]:
    """Run a bomb to its end; by how much it, the host and a neighbour's process grew."""
    run = await host.run(body, instance_id="bomb")
    pids = [run.started.pid, os.getpid(), neighbour.started.pid]
    peaks = await peak_until(lambda: run.lost.done() or run.ended.done(), pids, [0.0, *map(rss_mib, pids[1:])])
    return run, peaks


@pytest.mark.parametrize("made_of", MAKES)
async def test_a_bomb_ends_within_its_bounds_and_costs_nobody_else(pools: Pools, made_of: str) -> None:
    host = await pools.open(PoolSettings(2, context_memory_mib=MEMORY_MIB, stop=PATIENT))
    neighbour = await host.run("await step.do('a', () => new Promise((r) => setTimeout(r, 100))); " + WAIT)
    run, (peak_mib, host_mib, neighbour_mib) = await explode(host, neighbour, bomb(MAKES[made_of]))
    if run.ended.done():
        frame = run.ended.result()
        assert frame[0] == "threw", frame
    else:
        evidence, _ = run.lost.result()
        assert evidence.kind == "exit"
    assert peak_mib < 2 * MEMORY_MIB + 768 + BASE_MIB
    assert host_mib < FLAT_MIB
    assert neighbour_mib < FLAT_MIB
    assert not neighbour.lost.done()
    await neighbour.started.stop()
    assert await (await host.run("return {};")).result() == {}


@pytest.mark.parametrize("made_of", ["strings", "objects", "ArrayBuffers", "WebAssembly memory", "blobs", "promises"])
async def test_a_bomb_in_a_shared_process_ends_with_it_and_is_no_death_of_the_others(
    pools: Pools, made_of: str
) -> None:
    host = await pools.open(PoolSettings(1, share=4, context_memory_mib=MEMORY_MIB, stop=PATIENT))
    alone = await host.run(WAIT, instance_id="alone")
    beside, hog = await asyncio.gather(
        host.run(WAIT, instance_id="beside"), host.run(bomb(MAKES[made_of]), instance_id="hog")
    )
    assert beside.started.pid == hog.started.pid
    pids = [hog.started.pid, os.getpid(), alone.started.pid]
    begun = [0.0, *map(rss_mib, pids[1:])]
    peak_mib, host_mib, alone_mib = await peak_until(lambda: hog.lost.done() or hog.ended.done(), pids, begun)
    assert peak_mib < 2 * 2 * MEMORY_MIB + 768 + BASE_MIB
    assert (host_mib < FLAT_MIB, alone_mib < FLAT_MIB, alone.lost.done()) == (True, True, False)
    if hog.lost.done():
        evidence, _ = await beside.loss()
        assert (evidence.kind, evidence.is_own_fault) == ("exit", False)
        again = await host.run("return {};", instance_id="beside")
        assert await again.result() == {}


def large_history(count: int) -> tuple[tuple[StepRecord, ...], Callable[[Frame], Answer]]:
    """Completed steps with results of 1 MiB that have to be asked for, and the host that knows them."""
    text = json.dumps({"text": "x" * (MIB - len('{"text":""}'))}, separators=(",", ":"))
    assert len(text) == MIB

    def answer(frame: Frame) -> Answer:
        return ("done", text) if frame[0] == "need" else durable(frame)

    return tuple(StepRecord(f"s{n}", "large", None) for n in range(count)), answer


REPLAY = (
    "let n = 0; for (let i = 0; i < event.params.count; i++) n += (await step.do('s' + i)).text.length; return { n };"
)


async def replay(pools: Pools, count: int, memory_mib: int) -> float:
    """Wake an instance with so many results of 1 MiB and see it to its end; the peak of its process in MiB."""
    host = await pools.open(PoolSettings(1, context_memory_mib=memory_mib, context_cpu_limit_s=60, stop=PATIENT))
    steps, answer = large_history(count)
    run = await host.run(REPLAY, params=json.dumps({"count": count}), steps=steps, answer=answer)
    (peak_mib,) = await peak_until(lambda: run.lost.done() or run.ended.done(), [run.started.pid], [0.0])
    assert await run.result() == {"n": count * (MIB - 11)}
    return peak_mib


@pytest.mark.req("DW-32")
async def test_results_of_1_mib_are_not_kept_when_they_are_replayed(pools: Pools) -> None:
    await replay(pools, 150, 64)


@pytest.mark.long
@pytest.mark.req("DW-32", "DW-33")
async def test_1024_results_of_1_mib_are_replayed_in_a_heap_of_256_mib(pools: Pools) -> None:
    peak_mib = await replay(pools, 1024, 256)
    print(f"\n1024 results of 1 MiB replayed; the runner's peak was {peak_mib:.0f} MiB")
