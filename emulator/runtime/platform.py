"""What differs between operating systems about processes: their death with the host, limits, the wait for their end.

Knows nothing of workerd. Spawn from the main thread only: the death signal follows the thread that spawned.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from emulator.runtime.identity import process_started

_PACKAGES = Path(__file__).parents[2]
_LOWEST_PRIORITY = 19
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # of mallopt(3)
_LARGE_BYTES = 128 * 1024
_KEPT_VARIABLES = ("LD_LIBRARY_PATH", "SSL_CERT_DIR", "SSL_CERT_FILE")
_REAPER = "import sys; sys.path.insert(0, sys.argv[1]); from emulator.runtime.reaper import main; main()"


@cache
def _death_prefix() -> tuple[str, ...]:
    """The command that ties a process's life to ours, where there is one."""
    setpriv = shutil.which("setpriv") if sys.platform == "linux" else None
    return () if setpriv is None else (setpriv, "--pdeathsig", "KILL", "--")


def _environment() -> dict[str, str]:
    """Nothing of ours reaches a child but where libraries and root certificates lie."""
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    return {"TZ": "UTC", **kept}


def limit_data(pid: int, size_bytes: int) -> None:
    """Bound what a process may allocate beyond its files, where the system can; allocations fail, it lives on."""
    if sys.platform == "linux":
        import resource

        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_DATA, (size_bytes, size_bytes))


def give_memory_back() -> None:
    """Let this process return what large requests took as soon as they are done, where the C library can be told.

    The GNU library keeps memory for each thread apart, and learns from the first large block to keep such blocks.
    """
    if sys.platform == "linux":
        import ctypes

        with contextlib.suppress(AttributeError):  # another C library
            for option, value in ((_ARENA_MAX, 1), (_MMAP_THRESHOLD, _LARGE_BYTES), (_TRIM_THRESHOLD, _LARGE_BYTES)):
                ctypes.CDLL(None).mallopt(option, value)


def widen_pipe(descriptor: int, size_bytes: int) -> None:
    """Let a pipe hold this much before its writer waits, where the system can."""
    if sys.platform == "linux":
        import fcntl

        with contextlib.suppress(OSError):  # the user's pipes hold too much already
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, size_bytes)


def lower_priority(pid: int) -> None:
    """Give a process the processor only when nobody else wants it; there is no way back."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.setpriority(os.PRIO_PROCESS, pid, _LOWEST_PRIORITY)


class Reaper:
    """Our side of the reaper: knows every child, so that none outlives the host, however it dies."""

    def __init__(self) -> None:
        self._registered: dict[int, str] = {}
        self._process: subprocess.Popen[bytes] | None = None

    def register(self, pid: int, started: str) -> None:
        self._registered[pid] = started
        if self._process is None or not self._write(f"+ {pid} {started}\n"):
            self.close()
            self._start()

    def forget(self, pid: int) -> None:
        self._registered.pop(pid, None)
        if self._process is not None:
            self._write(f"- {pid}\n")  # a reaper that died has nothing to forget

    def close(self) -> None:
        """End the reaper; what is still registered is killed by it."""
        if self._process is None:
            return
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it died before us
            self._process.stdin.close()
        self._process.wait()
        self._process = None

    def _start(self) -> None:
        command = [sys.executable, "-E", "-S", "-c", _REAPER, str(_PACKAGES)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        self._write("".join(f"+ {pid} {started}\n" for pid, started in self._registered.items()))

    def _write(self, text: str) -> bool:
        assert self._process is not None and self._process.stdin is not None
        try:
            self._process.stdin.write(text.encode())
            self._process.stdin.flush()
        except OSError:
            return False
        return True


class Child:
    """A process of ours: its identity, its end, and the one way to end it for certain."""

    def __init__(self, process: subprocess.Popen[bytes], started: str, reaper: Reaper) -> None:
        self.pid = process.pid
        self.started = started
        self.exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._process = process
        self._reaper = reaper
        self._watch()

    @classmethod
    def spawn(cls, command: Sequence[str], *, reaper: Reaper, pass_fds: Sequence[int], output_fd: int) -> "Child":
        """Start `command` with its output on `output_fd`. Raises OSError. `exited` gives the exit status."""
        process = subprocess.Popen(
            [*_death_prefix(), *command],
            stdin=subprocess.DEVNULL,
            stdout=output_fd,
            stderr=output_fd,
            pass_fds=pass_fds,
            env=_environment(),
            start_new_session=True,  # the terminal's Ctrl-C is the host's alone
        )
        started = process_started(process.pid) or "gone"
        reaper.register(process.pid, started)
        return cls(process, started, reaper)

    def kill(self) -> None:
        """Kill the process unless it has been reaped already."""
        if not self.exited.done():
            self._process.kill()

    def terminate(self) -> None:
        """Ask the process to end in its own way, unless it has been reaped already."""
        if not self.exited.done():
            self._process.terminate()

    async def end(self) -> int:
        """Kill the process and return its exit status once the system has confirmed the end (DW-39)."""
        self.kill()
        return await asyncio.shield(self.exited)

    def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        if not hasattr(os, "pidfd_open"):
            threading.Thread(target=self._wait_in_thread, args=(loop,), daemon=True).start()
            return
        descriptor = os.pidfd_open(self.pid)

        def ended() -> None:
            loop.remove_reader(descriptor)
            os.close(descriptor)
            self._reap()

        loop.add_reader(descriptor, ended)

    def _wait_in_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        self._process.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody asks any more
            loop.call_soon_threadsafe(self._reap)

    def _reap(self) -> None:
        status = self._process.wait()
        self._reaper.forget(self.pid)
        if not self.exited.done():
            self.exited.set_result(status)


async def end_process(pid: int, started: str) -> None:
    """Kill a process that is none of our children, if it still is the one that `started` then, and see it gone.

    Raises PermissionError for a process of somebody else.
    """
    while process_started(pid) == started:
        with contextlib.suppress(ProcessLookupError):
            _kill_if(pid, started)
        await asyncio.sleep(0.002)


def _kill_if(pid: int, started: str) -> None:
    if not hasattr(os, "pidfd_open"):
        os.kill(pid, signal.SIGKILL)
        return
    descriptor = os.pidfd_open(pid)  # from here on a reused pid cannot be hit
    try:
        if process_started(pid) == started:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    finally:
        os.close(descriptor)
