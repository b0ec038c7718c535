"""Processes: identity, their end, and that none outlives the host, on the real system."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from emulator.runtime import platform
from emulator.runtime.identity import figures_of, process_started
from emulator.runtime.platform import Child, Reaper, end_process
from tests.structure.sources import ROOT

pytestmark = pytest.mark.req("DW-39")
SLEEP = (sys.executable, "-S", "-E", "-c", "import time; time.sleep(600)")
DEADLINE_S = 10.0


@pytest.fixture
def reaper() -> Iterator[Reaper]:
    made = Reaper()
    yield made
    made.close()


_GROW = """
import sys
from pathlib import Path
from emulator.runtime.platform import give_memory_back
def resident(): return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
if sys.argv[1] == "told":
    give_memory_back()
bytes(400_000)
before = resident()
large, small = [], []
for _ in range(400):
    large.append(bytes(200_000))
    small.append(bytes(600))
del large
print(resident() - before)
"""


@pytest.mark.req("HA-12")
def test_memory_of_large_requests_goes_back_to_the_system() -> None:
    def left(how: str) -> int:
        command = [sys.executable, "-c", _GROW, how]
        return int(subprocess.run(command, capture_output=True, check=True, cwd=ROOT, timeout=60).stdout)

    assert left("told") < 4_000_000, "of 80 MB"
    assert left("told") <= left("not told")


def spawn(reaper: Reaper, command: tuple[str, ...] = SLEEP) -> Child:
    with Path(os.devnull).open("wb") as nowhere:
        return Child.spawn(command, reaper=reaper, pass_fds=(), output_fd=nowhere.fileno())


def gone_in_time(pid: int, started: str) -> bool:
    """Whether the process ends before the deadline."""
    until = time.monotonic() + DEADLINE_S
    while time.monotonic() < until:
        if process_started(pid) != started:
            return True
        time.sleep(0.002)
    return False


async def test_a_child_is_named_by_pid_and_start_and_ends_with_a_status(reaper: Reaper) -> None:
    child = spawn(reaper)
    figures = figures_of(child.pid)
    assert figures is not None
    assert figures.started == child.started == process_started(child.pid)
    ours = figures_of(os.getpid())  # a child that is only just replaced by its program occupies nothing yet
    assert ours is not None and ours.rss_bytes > 0
    assert await child.end() == -signal.SIGKILL
    assert process_started(child.pid) is None
    assert await child.end() == -signal.SIGKILL


async def test_an_exit_status_is_seen_without_polling(reaper: Reaper) -> None:
    child = spawn(reaper, (sys.executable, "-S", "-E", "-c", "raise SystemExit(7)"))
    assert await asyncio.wait_for(child.exited, DEADLINE_S) == 7


async def test_a_child_is_awaited_where_the_system_has_no_process_descriptors(
    reaper: Reaper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    child = spawn(reaper)
    assert await child.end() == -signal.SIGKILL


async def test_figures_by_ps_agree_with_those_of_the_system(reaper: Reaper) -> None:
    from emulator.runtime import identity

    if shutil.which("ps") is None:
        pytest.skip("no ps here")
    child = spawn(reaper)
    told = identity._figures_from_ps(child.pid)
    assert told is not None and told.rss_bytes > 0
    await child.end()
    assert identity._figures_from_ps(child.pid) is None


async def test_a_child_inherits_nothing_of_the_hosts_environment(
    reaper: Reaper, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SECRET", "s3cret")
    found = tmp_path / "env"
    child = spawn(
        reaper, (sys.executable, "-S", "-c", f"import os; open({str(found)!r}, 'w').write(repr(dict(os.environ)))")
    )
    await asyncio.wait_for(child.exited, DEADLINE_S)
    assert "s3cret" not in found.read_text() and "'TZ': 'UTC'" in found.read_text()


async def test_a_process_of_an_earlier_host_is_ended_and_a_stranger_is_not(reaper: Reaper) -> None:
    old = subprocess.Popen(SLEEP)
    started = process_started(old.pid)
    assert started is not None
    await end_process(old.pid, "another start")
    assert process_started(old.pid) == started
    await end_process(old.pid, started)
    assert process_started(old.pid) is None
    assert old.wait() == -signal.SIGKILL
    await end_process(old.pid, started)


HOST = """
import asyncio, json, os, sys
from emulator.runtime import platform
from emulator.runtime.platform import Child, Reaper
if sys.argv[1] == "reaper only":
    platform._death_prefix = lambda: ()

async def main():
    reaper, nowhere = Reaper(), os.open(os.devnull, os.O_WRONLY)
    sleep = [sys.executable, "-S", "-E", "-c", "import time; time.sleep(600)"]
    children = [Child.spawn(sleep, reaper=reaper, pass_fds=(), output_fd=nowhere) for _ in range(3)]
    if sys.argv[1] == "death signal only":
        reaper._process.kill(); reaper._process.wait()
    await children.pop().end()
    print(json.dumps([[child.pid, child.started] for child in children]), flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@contextmanager
def small_host(way: str) -> Iterator[tuple[subprocess.Popen[str], list[list[object]]]]:
    """A host with two children, by the ways of death it has."""
    command = [sys.executable, "-c", HOST, way]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        yield process, json.loads(process.stdout.readline())
        process.kill()


@pytest.mark.parametrize("way", ["both", "reaper only", "death signal only"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_child_outlives_a_killed_host(way: str, number: signal.Signals) -> None:
    if way == "death signal only" and not platform._death_prefix():
        pytest.skip("no setpriv here")
    with small_host(way) as (process, children):
        process.send_signal(number)
        process.wait()
        assert len(children) == 2
        for pid, started in children:
            assert gone_in_time(int(str(pid)), str(started))


def test_the_reaper_is_outside_the_session_whose_end_takes_the_host(reaper: Reaper) -> None:
    reaper.register(2**22, "nothing")
    assert reaper._process is not None
    assert os.getsid(reaper._process.pid) == reaper._process.pid != os.getsid(0)


async def test_a_dead_reaper_is_replaced_and_knows_all_children(reaper: Reaper) -> None:
    first, second = spawn(reaper), None
    assert reaper._process is not None
    reaper._process.kill()
    reaper._process.wait()
    second = spawn(reaper)
    reaper.close()
    assert await asyncio.wait_for(first.exited, DEADLINE_S) == -signal.SIGKILL
    assert await asyncio.wait_for(second.exited, DEADLINE_S) == -signal.SIGKILL


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux bounds another process's memory")
async def test_memory_beyond_the_bound_is_refused_to_a_child(reaper: Reaper) -> None:
    waits = "import sys, time\nwhile True:\n  try: x = bytearray(300 << 20); time.sleep(0.01)\n  except MemoryError: sys.exit(9)"
    child = spawn(reaper, (sys.executable, "-S", "-E", "-c", waits))
    platform.limit_data(child.pid, 200 << 20)
    assert await asyncio.wait_for(child.exited, DEADLINE_S) == 9
