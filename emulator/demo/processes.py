"""The processes a demo starts: the counter and, again and again, the host. Knows no API."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emulator.client import Connection, ReadyFile
from emulator.demo.errors import DemoFailed

_READY_S = 60.0
_STOP_S = 20.0
_POLL_S = 0.005


@dataclass(frozen=True, slots=True)
class CountedEffect:
    """An effect as the counter saw it."""

    n: int
    at_ms: int
    instance: str
    step: str
    status: int
    killed: bool


class CounterProcess:
    """The counter beside the host; ends when its stdin closes, so it cannot be left behind."""

    def __init__(self, refusals: Sequence[dict[str, Any]], kill_at: int | None, pid_file: Path) -> None:
        words = ["--refusals", json.dumps(refusals), "--pid-file", str(pid_file)]
        if kill_at is not None:
            words += ["--kill-at", str(kill_at)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "emulator.demo.counter", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # the terminal's Ctrl-C is the demo's alone
        )
        assert self._process.stdout is not None
        port = self._process.stdout.readline().strip()
        if not port:
            raise DemoFailed("the counter process did not start")
        self.address = f"127.0.0.1:{port}"
        self._connection = Connection(f"http://{self.address}")

    def effects(self) -> tuple[CountedEffect, ...]:
        """Everything counted so far, in order."""
        return tuple(CountedEffect(**effect) for effect in self._connection.send("GET", "/effects").json())

    def stop(self) -> None:
        self._connection.close()
        self._process.communicate(timeout=_STOP_S)


class HostProcess:
    """One life of `takohost serve`."""

    def __init__(self, words: Sequence[str], ready_file: Path, log: Path) -> None:
        ready_file.unlink(missing_ok=True)
        self._log = log
        started_s = time.monotonic()
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "emulator.cli", "serve", *words, "--ready-file", str(ready_file)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        try:
            self.ready = self._await_ready(ready_file, started_s)
        except BaseException:
            self._process.kill()  # nobody else knows it yet
            raise
        self.start_to_ready_s = time.monotonic() - started_s

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> int:
        """SIGKILL, as a power cut would; returns the exit status."""
        self._process.send_signal(signal.SIGKILL)
        return self._process.wait(_STOP_S)

    def wait_killed(self, timeout_s: float) -> bool:
        """Whether somebody else has killed it in time."""
        try:
            return self._process.wait(timeout_s) != 0
        except subprocess.TimeoutExpired:
            return False

    def wait_ended(self, timeout_s: float) -> int:
        """The exit status of a host that ends by itself. Raises `subprocess.TimeoutExpired`."""
        return self._process.wait(timeout_s)

    def stop(self) -> int:
        """SIGTERM and the exit status; SIGKILL when it does not end."""
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            return self.kill()

    def _await_ready(self, ready_file: Path, started_s: float) -> ReadyFile:
        while not ready_file.exists():
            if self._process.poll() is not None:
                raise DemoFailed(f"the host did not start: {self._last_words()}")
            if time.monotonic() - started_s > _READY_S:
                self.kill()
                raise DemoFailed(f"the host was not ready after {_READY_S:g} s: {self._last_words()}")
            time.sleep(_POLL_S)
        return ReadyFile.read(ready_file)

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"exit status {self._process.returncode}"
