"""The table of the store against the store: every operation on a row in every state, on each driver."""

import pytest

from emulator.d1 import Database
from emulator.runstore import (
    EndKind,
    Expectation,
    FencedRunStore,
    InitialAdmission,
    InitialTerminalization,
    LifecyclePatch,
    Liveness,
    Replacement,
    RunRow,
)
from emulator.runstore.errors import RunNotAdmittedError, RunSettledConflictError, RunStateNotStorableError
from emulator.runstore.rules import is_settled, lifecycle_of
from emulator.runstore.states import TABLE, Answer, Operation, RowState, draw_diagram, draw_table
from tests.emulator.runstore.exactness import draw_exactness
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
from tests.structure.sources import ROOT

__all__ = ["d1_address", "database", "driver", "store"]

LIFE, END = '{"version":1,"revision":2}', '{"version":1,"revision":2,"terminal":{"status":"cancelled"}}'
LATER = END.replace("2", "3", 1)
ROWS = {
    RowState.ABSENT: None,
    RowState.PENDING: snapshot(LIFE, "pending"),
    RowState.RUNNING: snapshot(LIFE),
    RowState.SETTLED: snapshot(END),
    RowState.UNPARSED: unparsed(LIFE),
    RowState.UNPARSED_SETTLED: unparsed(END),
}
WRITTEN = {
    Operation.WRITE: snapshot(LIFE),
    Operation.WRITE_END: snapshot(LATER),
    Operation.WRITE_DEEP: unparsed(LIFE),
    Operation.REPLACE: snapshot(LIFE),
    Operation.REPLACE_DEEP: unparsed(LIFE),
}
INITIAL = RunRow(RUN.workflow_id, RUN.run_id, None, snapshot(LIFE, "pending"), T0, T0)
ANSWERS = {
    True: Answer.DONE,
    False: Answer.MISSED,
    None: Answer.DONE,
    Liveness.LIVE: Answer.LIVE,
    Liveness.SETTLED: Answer.SETTLED,
    Liveness.ABSENT: Answer.ABSENT,
    EndKind.TERMINALIZED: Answer.DONE,
    EndKind.PROGRESSED: Answer.PROGRESSED,
    EndKind.CONFLICT: Answer.CONFLICT,
    RunNotAdmittedError: Answer.NOT_ADMITTED,
    RunSettledConflictError: Answer.SETTLED_CONFLICT,
    RunStateNotStorableError: Answer.NOT_STORABLE,
}


async def act(store: FencedRunStore, operation: Operation, before: RunRow) -> object:
    status = "pending" if before.snapshot == ROWS[RowState.PENDING] else "running"

    async def create() -> None:
        await store.persist_snapshot(write(snapshot(LIFE, "pending")))

    match operation:
        case Operation.ADMIT:
            await store.with_initial_admission(InitialAdmission(RUN), create)
        case Operation.TOUCH:
            return await store.touch_run(RUN, T1)
        case Operation.PATCH:
            return await store.patch_run_lifecycle(RUN, Expectation(status, 2), LifecyclePatch(LIFE, 1, T1))
        case Operation.WRITE | Operation.WRITE_END | Operation.WRITE_DEEP:
            await store.persist_snapshot(write(WRITTEN[operation]))
        case Operation.REPLACE | Operation.REPLACE_DEEP:
            return await store.replace_snapshot(before, Replacement(WRITTEN[operation], T1))
        case Operation.END_START:
            ended = await store.terminalize_initial_admission(InitialTerminalization(INITIAL, T1, True))
            return ended.kind
    return None


def state_of(found: RunRow | None) -> RowState:
    if found is None:
        return RowState.ABSENT
    settled = is_settled(lifecycle_of(found.snapshot))
    if found.lifecycle_text is None:
        return RowState.UNPARSED_SETTLED if settled else RowState.UNPARSED
    if settled:
        return RowState.SETTLED
    return RowState.PENDING if '"status":"pending"' in found.snapshot else RowState.RUNNING


@pytest.mark.req("RS-11", "RS-13", "RS-20", "RS-30", "RS-40", "RS-60", "RS-62", "RS-70")
@pytest.mark.parametrize("operation", Operation)
@pytest.mark.parametrize("state", RowState)
async def test_every_operation_does_to_every_row_what_the_table_says(
    store: FencedRunStore, database: Database, state: RowState, operation: Operation
) -> None:
    text = ROWS[state]
    await (remove(database) if text is None else put(database, text))
    before = await row(store) if text is not None else INITIAL
    try:
        answer = ANSWERS[await act(store, operation, before)]  # type: ignore[index]
    except tuple(key for key in ANSWERS if isinstance(key, type)) as error:
        answer = ANSWERS[type(error)]
    found = await store.read_snapshot(RUN)
    assert (answer, state_of(found)) == TABLE[state][operation]
    if answer is not Answer.DONE and answer is not Answer.LIVE:
        assert (found is None and text is None) or found == before


def test_the_table_is_whole() -> None:
    assert set(TABLE) == set(RowState)
    assert all(set(answers) == set(Operation) for answers in TABLE.values())


def test_the_docs_show_the_tables_as_they_are() -> None:
    """`python -m tests.emulator.runstore.exactness` writes them anew."""
    docs = (ROOT / "docs" / "run-store.md").read_text("utf-8")
    for part in (draw_diagram(), draw_table(), draw_exactness()):
        assert part in docs
