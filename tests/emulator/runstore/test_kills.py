"""SIGKILL at every fault point: the row is the one before or the one after, readable, and the next caller goes on."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from emulator.runstore import EndKind, Liveness, RunRow
from emulator.runstore.errors import RunNotAdmittedError, RunOutcomeUnreadableError
from host.model.faults import FaultAction, FaultPoints, registered
from tests.emulator.runstore.stores import RUN, T0, T1, T2
from tests.emulator.runstore.victim import FIRST, INITIAL, PATCHED, REPLACED, act, open_store
from tests.structure.sources import ROOT

BEFORE = {"admit": "admitting", "patch": "patching", "replace": "replacing", "end": "ending", "persist": "persisting"}
AFTER = {"admit": "admitted", "patch": "patched", "replace": "replaced", "end": "ended", "persist": "persisted"}
RESULTS = {"admit": FIRST, "patch": PATCHED, "replace": REPLACED, "persist": REPLACED}


def kill_in(file: Path, operation: str, point: str) -> None:
    script = [sys.executable, "-m", "tests.emulator.runstore.victim", str(file), operation, f"runstore.{point}"]
    victim = subprocess.run(script, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False)
    assert victim.returncode == -signal.SIGKILL


def test_every_fault_point_is_killed_at() -> None:
    points = {name for name in registered() if name.startswith("runstore.")}
    assert points == {f"runstore.{name}" for name in (*BEFORE.values(), *AFTER.values())}


@pytest.mark.req("RS-12", "RS-70")
@pytest.mark.parametrize("operation", BEFORE)
async def test_killed_before_the_batch_nothing_is_written_and_the_operation_can_be_repeated(
    tmp_path: Path, operation: str
) -> None:
    kill_in(tmp_path / "a.sqlite", operation, BEFORE[operation])
    driver, store = await open_store(tmp_path / "a.sqlite", FaultPoints.none())
    found = await store.read_snapshot(RUN)
    assert found is None if operation == "admit" else found is not None and found.is_stored_as(INITIAL)
    await act(store, operation)
    await assert_done(await store.read_snapshot(RUN), operation)
    await driver.close()


async def assert_done(found: RunRow | None, operation: str) -> None:
    assert found is not None
    if operation == "end":
        assert '"status":"failed"' in found.snapshot and "startOutcomeUnknownAt" in found.snapshot
    else:
        assert found.snapshot == RESULTS[operation]
    assert found.updated_at == (T0 if operation == "admit" else T1)


@pytest.mark.req("RS-12", "RS-70")
@pytest.mark.parametrize("operation", AFTER)
async def test_killed_after_the_commit_the_row_is_whole_and_a_repetition_is_told_so(
    tmp_path: Path, operation: str
) -> None:
    kill_in(tmp_path / "a.sqlite", operation, AFTER[operation])
    driver, store = await open_store(tmp_path / "a.sqlite", FaultPoints.none())
    await assert_done(await store.read_snapshot(RUN), operation)
    if operation == "admit":
        with pytest.raises(RunNotAdmittedError):
            await act(store, operation)
        assert await store.touch_run(RUN, T2) is Liveness.LIVE
    else:
        again = {"patch": False, "replace": False, "end": EndKind.ALREADY_TERMINALIZED, "persist": None}
        assert await act(store, operation) == again[operation]
        await assert_done(await store.read_snapshot(RUN), operation)
    await driver.close()


@pytest.mark.req("RS-12", "RS-71")
@pytest.mark.parametrize("operation", AFTER)
async def test_an_answer_lost_after_the_commit_is_read_back_or_unreadable(tmp_path: Path, operation: str) -> None:
    faults = FaultPoints()
    driver, store = await open_store(tmp_path / "a.sqlite", faults)
    if operation != "admit":
        await act(store, "admit")
    faults.arm(f"runstore.{AFTER[operation]}", action=FaultAction.ERROR)
    if operation == "admit":
        await act(store, operation)
    else:
        with pytest.raises(RunOutcomeUnreadableError):
            await act(store, operation)
    await assert_done(await store.read_snapshot(RUN), operation)
    await driver.close()
