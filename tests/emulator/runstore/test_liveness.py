"""Legs are touched, a silent run is settled in one mode and never in the other (RS-14, RS-21)."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from emulator.d1 import Database
from emulator.runstore import FencedRunStore, Liveness, Recovery, Replacement, RunAddress, RunRow, StoredRunScope
from emulator.runstore.capability import GuardsStoredRuns, PatchesLifecycles, ReplacesSnapshots, TouchesRuns
from emulator.runstore.errors import RunLifecycleBlockedError, RunOutcomeUnreadableError, RunSettledConflictError
from emulator.runstore.instants import milliseconds
from emulator.runstore.liveness import SILENT_AFTER_MS, TOUCH_EVERY_S, LegWatch, SettleOutcome, settle_silent
from host.model.time import RealTime
from tests.emulator.runstore.stores import (
    RUN,
    T0,
    T1,
    d1_address,
    database,
    driver,
    put,
    remove,
    row,
    snapshot,
    store,
    unparsed,
    write,
)

__all__ = ["d1_address", "database", "driver", "store"]

T = TypeVar("T")
STARTED_MS = milliseconds(T0) or 0
SILENT_MS = STARTED_MS + SILENT_AFTER_MS


class SteppedTime(RealTime):
    """Real time that passes when the test says so."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        self._steps: asyncio.Queue[None] = asyncio.Queue()

    async def sleep_s(self, seconds: float) -> None:
        self.slept.append(seconds)
        await self._steps.get()

    def step(self) -> None:
        self._steps.put_nowait(None)


class Reads:
    """A run store with nothing but the required members."""

    def __init__(self, inner: FencedRunStore) -> None:
        self.inner = inner

    async def read_snapshot(self, address: RunAddress) -> RunRow | None:
        return await self.inner.read_snapshot(address)


class Touches(Reads):
    async def touch_run(self, address: RunAddress, now: str) -> Liveness | None:
        return await self.inner.touch_run(address, now)


class Replaces(Reads):
    async def replace_snapshot(self, expected_row: RunRow, replacement: Replacement) -> bool:
        return await self.inner.replace_snapshot(expected_row, replacement)


class Guards(Touches):
    async def with_stored_run(self, scope: StoredRunScope, operation: Callable[[], Awaitable[T]]) -> T:
        return await self.inner.with_stored_run(scope, operation)


class TellsNothing(Touches):
    """A store without a guard: an answer that is no evidence."""

    async def touch_run(self, address: RunAddress, now: str) -> Liveness | None:
        return None


class Fails(Touches):
    async def touch_run(self, address: RunAddress, now: str) -> Liveness | None:
        raise RunOutcomeUnreadableError("no answer")


async def watch(store: Reads | FencedRunStore, scope: StoredRunScope, steps: int = 2) -> tuple[list[str], SteppedTime]:
    """Let a leg's watch touch `steps` times; returns why it aborted the leg."""
    reasons: list[str] = []
    real_time = SteppedTime()
    keeping = asyncio.create_task(LegWatch(store, scope, real_time, lambda: T1, reasons.append).keep())
    for _ in range(steps):
        real_time.step()
    while len(real_time.slept) <= steps and not keeping.done():
        await asyncio.sleep(0.001)
    keeping.cancel()
    await asyncio.wait([keeping])
    return reasons, real_time


@pytest.mark.req("RS-14")
def test_each_optional_member_is_asked_for_by_itself(store: FencedRunStore) -> None:
    for member in (TouchesRuns, ReplacesSnapshots, PatchesLifecycles, GuardsStoredRuns):
        assert isinstance(store, member)
        assert not isinstance(Reads(store), member)
    assert isinstance(Touches(store), TouchesRuns) and not isinstance(Touches(store), ReplacesSnapshots)


@pytest.mark.req("RS-21")
async def test_a_leg_touches_its_row_every_thirty_seconds_of_real_time(
    store: FencedRunStore, database: Database
) -> None:
    await put(database, snapshot())
    reasons, real_time = await watch(store, StoredRunScope(RUN.workflow_id, RUN.run_id, True))
    assert reasons == [] and real_time.slept == [TOUCH_EVERY_S] * 3 and TOUCH_EVERY_S == 30
    assert (await row(store)).updated_at == T1


@pytest.mark.req("RS-21", "RS-20")
async def test_settled_aborts_the_leg(store: FencedRunStore, database: Database) -> None:
    await put(database, snapshot('{"revision":2,"interruptedAt":1}'))
    reasons, _ = await watch(store, StoredRunScope(RUN.workflow_id, RUN.run_id))
    assert reasons == ["another writer settled the run"]


@pytest.mark.req("RS-21", "RS-14")
@pytest.mark.parametrize(("kind", "stored"), [(Guards, True), (Guards, False), (Touches, True)])
async def test_absent_aborts_only_a_leg_that_stored_its_row_in_a_store_that_guards_it(
    store: FencedRunStore, database: Database, kind: type[Touches], stored: bool
) -> None:
    reasons, _ = await watch(kind(store), StoredRunScope(RUN.workflow_id, RUN.run_id, stored))
    assert reasons == (["the run's row is gone"] if kind is Guards and stored else [])


@pytest.mark.req("RS-21", "RS-14", "RS-20")
@pytest.mark.parametrize("kind", [Reads, TellsNothing, Fails])
async def test_no_answer_does_nothing(store: FencedRunStore, database: Database, kind: type[Reads]) -> None:
    await put(database, snapshot('{"revision":2,"interruptedAt":1}'))
    reasons, _ = await watch(kind(store), StoredRunScope(RUN.workflow_id, RUN.run_id, True))
    assert reasons == []


@pytest.mark.req("RS-21")
@pytest.mark.parametrize("parses", [True, False])
async def test_a_silent_run_whose_leg_stopped_is_settled_once_for_all(
    store: FencedRunStore, database: Database, parses: bool
) -> None:
    await put(database, snapshot() if parses else unparsed())
    read = await row(store)
    assert await settle_silent(store, Recovery.SETTLE, read, SILENT_MS, True) is SettleOutcome.SETTLED
    stored = json.loads((await row(store)).snapshot.replace("[" * 1000 + "]" * 1000, "0"))
    assert (stored["status"], stored["error"]) == ("failed", {"code": "INTERRUPTED"})
    assert stored["lifecycle"] == {"version": 1, "revision": 3, "interruptedAt": "2026-01-01T00:06:00.000Z"}
    assert await store.touch_run(RUN, T1) is Liveness.SETTLED
    with pytest.raises(RunSettledConflictError):
        await store.persist_snapshot(write(snapshot('{"version":1,"revision":2}')))
    again = await settle_silent(store, Recovery.SETTLE, await row(store), SILENT_MS * 2, True)
    assert again is SettleOutcome.NOT_SILENT


@pytest.mark.req("RS-21")
@pytest.mark.parametrize("to", ["cancelled", "timed_out"])
async def test_a_silent_run_goes_where_its_stored_intent_says(
    store: FencedRunStore, database: Database, to: str
) -> None:
    await put(database, snapshot(f'{{"revision":2,"transitionIntent":{{"to":"{to}"}}}}'))
    assert await settle_silent(store, Recovery.SETTLE, await row(store), SILENT_MS, True) is SettleOutcome.SETTLED
    assert json.loads((await row(store)).snapshot)["status"] == to


@pytest.mark.req("RS-21")
async def test_what_is_not_silent_or_may_act_or_changed_is_left_alone(
    store: FencedRunStore, database: Database
) -> None:
    await put(database, snapshot())
    read = await row(store)

    async def outcome(now_ms: int = SILENT_MS, is_stopped: bool = True) -> SettleOutcome:
        return await settle_silent(store, Recovery.SETTLE, read, now_ms, is_stopped)

    assert await outcome(SILENT_MS - 1) is SettleOutcome.NOT_SILENT
    assert await outcome(is_stopped=False) is SettleOutcome.LEG_MAY_ACT
    await store.touch_run(RUN, T1)
    assert await outcome() is SettleOutcome.CHANGED
    await remove(database)
    assert await outcome() is SettleOutcome.CHANGED
    for text in (snapshot(status="suspended"), snapshot('{"terminal":1}'), "{bad", "[]"):
        await put(database, text)
        read = await row(store)
        assert await outcome() is SettleOutcome.NOT_SILENT
    await put(database, snapshot('{"economicOperations":[{"settlementState":"disputed"}]}'))
    read = await row(store)
    with pytest.raises(RunLifecycleBlockedError):
        await outcome()
    assert await row(store) == read


@pytest.mark.req("RS-21", "RS-14")
async def test_a_replayed_run_is_never_settled_for_silence_nor_one_whose_store_cannot(
    store: FencedRunStore, database: Database
) -> None:
    await put(database, snapshot())
    read, century_ms = await row(store), STARTED_MS + 100 * 365 * 86_400_000
    assert await settle_silent(store, store.recovery, read, century_ms, True) is SettleOutcome.NOT_POSSIBLE
    for kind in (Reads, Touches, Replaces):
        outcome = await settle_silent(kind(store), Recovery.SETTLE, read, century_ms, True)
        assert outcome is SettleOutcome.NOT_POSSIBLE
    assert await row(store) == read
    assert store.recovery is Recovery.REPLAY
    assert FencedRunStore(database, recovery="settle").recovery is Recovery.SETTLE
    with pytest.raises(ValueError, match="guess"):
        FencedRunStore(database, recovery="guess")
