"""A host sets its interpreter up before it serves: threads take short turns, collections leave a start's objects alone."""

import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from emulator.compose import run
from emulator.compose.interpreter import SWITCH_INTERVAL_S, keep_what_is_there
from emulator.compose.listeners import ListenerPorts
from emulator.compose.options import HostOptions


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    interval_s = sys.getswitchinterval()
    yield
    sys.setswitchinterval(interval_s)
    gc.unfreeze()
    gc.enable()


@pytest.mark.req("DW-35")
def test_a_host_serves_with_short_turns_for_its_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[float] = []

    async def serve(options: HostOptions, began_s: float) -> None:
        found.append(sys.getswitchinterval())

    monkeypatch.setattr(run, "_run", serve)
    monkeypatch.setattr(run, "give_memory_back", lambda: None)
    run.run_host(HostOptions(tmp_path, ListenerPorts(0, 0, 0, 0)))
    assert found == [pytest.approx(SWITCH_INTERVAL_S)]


@pytest.mark.req("DW-35")
def test_what_a_start_made_is_left_out_of_later_collections() -> None:
    gc.disable()
    made = [[] for _ in range(1000)]  # type: ignore[var-annotated]
    keep_what_is_there()
    assert gc.isenabled()
    assert not any(each is made for each in gc.get_objects())
