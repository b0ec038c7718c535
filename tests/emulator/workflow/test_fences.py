"""Whatever an owner that was fenced still sends commits nothing, statement by statement."""

import pytest

from emulator.d1 import Statement
from emulator.runstore import Expectation, FencedRunStore, LifecyclePatch, Liveness, SnapshotWrite
from emulator.runstore.address import RunAddress
from emulator.runstore.errors import RunSettledConflictError
from emulator.runstore.snapshot import TERMINAL, RunStatus, TerminalRecord, decode
from emulator.runstore.statements import change_at
from emulator.workflow import context_rows, step_rows, transitions
from emulator.workflow.due import LIFETIME_MS
from emulator.workflow.history import Step, StepKind, StepState
from host.model.time import timestamp
from tests.emulator.workflow.bodies import never_ends
from tests.emulator.workflow.conftest import Boot
from tests.emulator.workflow.hosts import WORKFLOW, Host
from tests.emulator.workflow.isolates import Document
from tests.emulator.workflow.isolates import Step as IsolateStep

ADDRESS = RunAddress(WORKFLOW, "i")
_TABLES = ("runs", "workflow_steps", "workflow_events", "workflow_contexts", "workflow_due", "workflow_attempts")


async def _rows(host: Host) -> list[object]:
    results = await host.database.query([Statement(f"SELECT * FROM {table} ORDER BY 1") for table in _TABLES])
    return [result.rows for result in results]


@pytest.mark.req("DW-39", "DW-42", "RS-70")
async def test_no_statement_of_a_fenced_owner_applies(start: Boot) -> None:
    host = await start(Flow=never_ends)
    await host.create()
    await host.executing(steps=1)
    pending = Step("endless", 1, StepKind.DO, StepState.PENDING, settings='{"maxAttempts":2}')
    before, now_ms = await _rows(host), host.clock.now_ms()
    results = await host.database.batch(
        [
            step_rows.insert_pending(ADDRESS, "old", Step("new", 2, StepKind.DO, StepState.PENDING), now_ms),
            step_rows.settle_effect(ADDRESS, "old", pending, StepState.SUCCEEDED, None, now_ms),
            step_rows.begin_attempt(ADDRESS, "old", pending, now_ms),
            *step_rows.plan_retry(ADDRESS, "old", pending, "message", now_ms, now_ms),
            *step_rows.settle_due(ADDRESS, "old", now_ms + 1_000_000),
            context_rows.insert_claimed(ADDRESS, "old", "context", "v1", now_ms),
            transitions.intend(ADDRESS, "old", "new", RunStatus.COMPLETE, now_ms),
            transitions.intend_while_pending(ADDRESS, "old", "new", RunStatus.SLEEPING, "endless", now_ms),
            transitions.claim(ADDRESS, 1, "new", "v1", now_ms),
            transitions.end_parked(ADDRESS, "new", RunStatus.TERMINATED, now_ms),
            transitions.publish(ADDRESS, "new", now_ms),
        ]
    )
    assert [result.changes for result in results] == [0] * len(results)
    assert await _rows(host) == before


@pytest.mark.req("RS-60", "RS-20", "RS-40", "RS-70")
@pytest.mark.parametrize("how", ["returned", "threw", "terminated while it slept", "terminated while it ran"])
async def test_an_instance_that_ended_is_a_settled_row_of_the_run_store(start: Boot, how: str) -> None:
    async def body(params: Document, step: IsolateStep) -> Document:
        if how == "threw":
            raise ValueError("no")
        if how == "terminated while it slept":
            await step.sleep("nap", 60)
        return None

    host = await start(Flow=never_ends if how == "terminated while it ran" else body)
    await host.create()
    if how.startswith("terminated"):
        await (host.executing(steps=1) if how.endswith("ran") else host.idle())
        await host.terminate()
    await host.idle()
    store = FencedRunStore(host.database)
    row = await store.read_snapshot(ADDRESS)
    assert row is not None
    ended, lifecycle = decode(row.snapshot), decode(row.snapshot).lifecycle
    assert ended.status in TERMINAL and lifecycle.transition_intent is None
    assert lifecycle.terminal == TerminalRecord(ended.status, row.updated_at)
    assert await store.touch_run(ADDRESS, timestamp(host.clock.now_ms() + 1)) is Liveness.SETTLED
    patch = LifecyclePatch(row.lifecycle_text or "", row.updated_at, row.updated_at)
    assert not await store.patch_run_lifecycle(ADDRESS, Expectation(ended.status, lifecycle.revision), patch)
    with pytest.raises(RunSettledConflictError):
        await store.persist_snapshot(SnapshotWrite(ADDRESS, row.snapshot, row.created_at, row.updated_at))
    [again] = await host.database.batch([change_at(ADDRESS, {}, (), "TRUE", {"at": row.updated_at})])
    assert not again.is_applied
    assert await store.read_snapshot(ADDRESS) == row


@pytest.mark.req("DW-39")
async def test_no_status_is_published_while_a_context_is_not_known_to_have_stopped(start: Boot) -> None:
    host = await start(Flow=never_ends)
    await host.create()
    await host.executing(steps=1)
    now_ms = host.clock.now_ms()
    intended, published = await host.database.batch(
        [
            transitions.end_running(ADDRESS, "new", RunStatus.TERMINATED, now_ms),
            transitions.publish(ADDRESS, "newer", now_ms),
        ]
    )
    assert intended.is_applied and not published.is_applied
    await host.terminate()


@pytest.mark.req("DW-23", "WD-03")
async def test_a_claim_for_a_version_that_left_the_weights_is_refused(start: Boot) -> None:
    host = await start(Flow=never_ends, starts=False)
    await host.create()
    now_ms = host.clock.now_ms()
    old, current = await host.database.batch(
        [transitions.claim(ADDRESS, 1, "b", "v0", now_ms), transitions.claim(ADDRESS, 1, "c", "v1", now_ms)]
    )
    assert (old.is_applied, current.is_applied) == (False, True)
    await host.vanish()


@pytest.mark.req("DW-06", "DW-39")
async def test_the_owners_of_a_workflow_that_is_deleted_commit_nothing_before_it_is_purged(start: Boot) -> None:
    host = await start(Flow=never_ends)
    await host.create()
    await host.executing(steps=1)
    [found] = await host.database.query([Statement("SELECT snapshot ->> '$.lifecycle.owner' FROM runs")])
    owner, now_ms = str(found.rows[0][0]), host.clock.now_ms()
    step = Step("endless", 1, StepKind.DO, StepState.PENDING)
    fenced, settled = await host.database.batch(
        [
            transitions.fence_workflow(WORKFLOW, "new", now_ms),
            step_rows.settle_effect(ADDRESS, owner, step, StepState.SUCCEEDED, None, now_ms),
        ]
    )
    assert fenced.is_applied and not settled.is_applied
    await host.terminate()


@pytest.mark.req("DW-33")
async def test_no_context_is_claimed_at_the_end_of_a_lifetime(start: Boot) -> None:
    host = await start(Flow=never_ends, starts=False)
    await host.create()
    end_ms = host.clock.now_ms() + LIFETIME_MS
    late, early = await host.database.batch(
        [transitions.claim(ADDRESS, 1, "a", "v1", end_ms), transitions.claim(ADDRESS, 1, "b", "v1", end_ms - 1)]
    )
    assert (late.is_applied, early.is_applied) == (False, True)
    await host.vanish()
