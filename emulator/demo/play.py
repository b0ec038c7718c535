"""Runs a fixture's whole story on two lives of a host in a directory of its own. Knows no output format."""

import contextlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from emulator.client import ClientError
from emulator.demo.deploy import Deployed, deploy
from emulator.demo.errors import DemoFailed
from emulator.demo.fixture import Fixture
from emulator.demo.life import Life
from emulator.demo.processes import CountedEffect, CounterProcess
from emulator.demo.sightings import Sighting
from emulator.demo.story import Story

_LOG_LINES = 20


@dataclass(frozen=True, slots=True)
class Told:
    """Everything a finished demo knows; `start_to_ready_s` of the first start and of the restart."""

    deployed: Deployed
    seen: dict[str, Sighting]
    effects: tuple[CountedEffect, ...]
    killed_ms: int
    ready_ms: int
    start_to_ready_s: tuple[float, float]
    storage: str


class Stage:
    """The processes of one demo; leaving the context ends them all."""

    def __init__(self, folder: Path, fixture: Fixture, kill_at: int | None) -> None:
        self._folder = folder
        self._ready_file = folder / "ready.json"
        self._lives: list[Life] = []
        self.log = folder / "host.log"
        self.counter = CounterProcess(fixture.refusals, kill_at, self._ready_file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for life in self._lives:
            life.close()
            if life.process.is_alive:
                life.process.kill()
        self.counter.stop()

    def raise_host(self) -> Life:
        """Start the host, again on the same state directory. Raises `DemoFailed`."""
        state = ["--state-dir", str(self._folder / "state"), "--ingress-port", "0"]
        life = Life([*state, "--allow-outbound", self.counter.address], self._ready_file, self.log)
        self._lives.append(life)
        return life


def play(fixture: Fixture, kill_at: int | None, tell: Callable[[str], None]) -> Told:
    """Deploy, start, kill, restart, wait. Raises `DemoFailed`, `ClientError`."""
    with (
        tempfile.TemporaryDirectory(prefix="takohost-demo-") as name,
        Stage(Path(name), fixture, kill_at) as stage,
        _log_on_failure(stage.log),
    ):
        return _play(fixture, kill_at, tell, stage)


def _play(fixture: Fixture, kill_at: int | None, tell: Callable[[str], None], stage: Stage) -> Told:
    first = _raise_host(stage, tell)
    deployed = deploy(fixture, f"http://{stage.counter.address}", first.api(), first.management)
    tell(f"deployed {' and '.join(deployed.version_names.values())} of {fixture.worker} over HTTPS")
    story = Story(fixture, deployed, tell)
    try:
        killed_ms = story.before_the_kill(first, by_counter=kill_at is not None)
    except DemoFailed as error:
        seen_effects = len(stage.counter.effects())
        if kill_at is None or kill_at <= seen_effects:
            raise
        raise DemoFailed(f"{error}; it has {seen_effects} effects, so there is no effect {kill_at}") from error
    if kill_at is not None:
        tell(f"SIGKILL to host process {first.process.ready.pid} at effect {kill_at}")
    second = _raise_host(stage, tell)
    ready_ms = time.time_ns() // 1_000_000
    seen = story.after_the_restart(second)
    status = second.process.stop()
    if status != 0:
        raise DemoFailed(f"the host ended with status {status} after SIGTERM")
    return Told(
        deployed=deployed,
        seen=seen,
        effects=stage.counter.effects(),
        killed_ms=killed_ms,
        ready_ms=ready_ms,
        start_to_ready_s=(first.process.start_to_ready_s, second.process.start_to_ready_s),
        storage=second.process.ready.storage,
    )


def _raise_host(stage: Stage, tell: Callable[[str], None]) -> Life:
    life = stage.raise_host()
    ready = life.process.ready
    tell(f"host process {ready.pid} ready after {life.process.start_to_ready_s:.2f} s, storage {ready.storage}")
    return life


@contextlib.contextmanager
def _log_on_failure(log: Path) -> Iterator[None]:
    """Show what the host said last when the demo breaks off."""
    try:
        yield
    except (DemoFailed, ClientError):
        lines = log.read_text(errors="replace").splitlines()[-_LOG_LINES:] if log.exists() else []
        if lines:
            print("\n".join(["last lines of the host:", *(f"  {line}" for line in lines)]), file=sys.stderr)
        raise
