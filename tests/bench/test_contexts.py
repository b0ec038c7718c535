"""What one execution context costs, beside a bare isolate of the same runtime in the same minute, and a replay. Printed."""

import json
import os
import statistics
import time
from collections.abc import Awaitable, Callable

import pytest

from emulator.contexts import StepRecord
from emulator.runtime.identity import figures_of
from emulator.runtime.pool import PoolSettings
from emulator.runtime.process import Launcher
from tests.emulator.runtime.conftest import PATIENT, Pools, Run, ScriptedHost, launcher, pools, said
from tests.emulator.runtime.probers import Prober

__all__ = ["launcher", "pools", "said"]

COUNT = 30
STEP = "return await step.do('a', () => ({ ok: 1 }));"
REPLAY = "let n = 0; for (let i = 0; i < 1024; i++) n += (await step.do('step ' + i)).value; return { n };"
REPLAY_GOAL_MS = 30.0
BARE = "export class Main { fetch() { return new Response('1'); } } export default {};"


async def timed(work: Callable[[], Awaitable[object]], pid: int) -> tuple[list[float], float]:
    """Milliseconds of each of `COUNT` rounds, sorted, and of the process's processor time per round."""
    for _ in range(5):
        await work()
    begun_cpu_s, times = cpu_s(pid), []
    for _ in range(COUNT):
        began_s = time.perf_counter()
        await work()
        times.append((time.perf_counter() - began_s) * 1000)
    return sorted(times), (cpu_s(pid) - begun_cpu_s) * 1000 / COUNT


def cpu_s(pid: int) -> float:
    figures = figures_of(pid)
    assert figures is not None
    return figures.cpu_s


def shown(what: str, times: list[float], cpu_ms: float) -> str:
    return f"{what:46} min {times[0]:6.2f}  median {statistics.median(times):6.2f}  processor {cpu_ms:5.2f} ms"


async def finished(host: ScriptedHost, body: str, steps: tuple[StepRecord, ...] = ()) -> Run:
    run = await host.run(body, steps=steps)
    await run.result()
    await run.started.stop()
    return run


async def measure(pools: Pools, body: str, steps: tuple[StepRecord, ...] = ()) -> tuple[list[float], float]:
    """Contexts of one body, one after the other in one process, each in an isolate loaded ahead."""
    host = await pools.open(PoolSettings(1, stop=PATIENT, recycle_rss_mib=1000))
    pid = (await finished(host, body, steps)).started.pid
    return await timed(lambda: finished(host, body, steps), pid)


@pytest.mark.bench
async def test_one_context_and_a_bare_isolate(pools: Pools, launcher: Launcher) -> None:
    lines = [f"\nload {os.getloadavg()[0]:.1f}, {COUNT} rounds each, one after the other"]
    async with Prober.open(launcher) as prober:
        answer = await timed(lambda: prober.ask({"run.js": BARE}, facet=True), prober.pid)
        lines.append(shown("bare isolate: load, facet, three requests", *answer))
    lines.append(shown("context of one step, isolate loaded ahead", *await measure(pools, STEP)))
    lines.append(shown("context without a step", *await measure(pools, "return {};")))
    print("\n".join(lines))


@pytest.mark.bench
@pytest.mark.req("DW-32")
async def test_replay_of_1024_small_results(pools: Pools) -> None:
    text = json.dumps({"note": "x" * 100, "value": 1}, separators=(",", ":"))
    steps = tuple(StepRecord(f"step {n}", "succeeded", text) for n in range(1024))
    empty, _ = await measure(pools, "return {};")
    times, cpu_ms = await measure(pools, REPLAY, steps)
    cost_ms = times[0] - empty[0]
    print(f"\nload {os.getloadavg()[0]:.1f}\n" + shown("context that replays 1024 results", times, cpu_ms))
    print(f"replay alone: {cost_ms:.2f} ms (goal {REPLAY_GOAL_MS:g} ms)")
    assert cost_ms < 10 * REPLAY_GOAL_MS
