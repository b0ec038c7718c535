"""The admission of a run and the end of a start whose outcome is unknown (RS-11 to RS-13)."""

import asyncio
import json

import pytest

from emulator.d1 import Database, Driver
from emulator.runstore import (
    EndKind,
    Expectation,
    FencedRunStore,
    InitialAdmission,
    InitialTerminalization,
    LifecyclePatch,
    Liveness,
    Replacement,
    Reservation,
    RunRow,
    StoredRunScope,
)
from emulator.runstore.errors import (
    AdmissionBrokenError,
    MalformedRunInputError,
    RunLifecycleBlockedError,
    RunNotAdmittedError,
    RunOutcomeUnreadableError,
    RunSettledConflictError,
    RunStateNotStorableError,
)
from tests.emulator.runstore.stores import (
    OTHER,
    PREFIX,
    RUN,
    T0,
    T1,
    T2,
    LossyDriver,
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

FIRST = snapshot('{"version":1,"revision":1,"attemptToken":"t1"}', "pending", ',"activePaths":{}')
INTENT = '"transitionIntent":{"to":"cancelled","at":"x"}'
DISPUTE = '"economicOperations":[{"id":"a","settlementState":"disputed"}]'


async def admit(store: FencedRunStore, text: str = FIRST, reservation: Reservation | None = None) -> RunRow:
    async def create() -> None:
        await store.persist_snapshot(write(text, updated_at=T0, resource_id="res"))

    return (await store.with_initial_admission(InitialAdmission(RUN, reservation), create)).witness


async def reservations(database: Database) -> list[object]:
    return [each[0] for each in await database.prepare(f"SELECT token FROM {PREFIX}run_reservations").raw()]


@pytest.mark.req("RS-11")
async def test_create_run_is_called_once_and_its_run_is_not_started(store: FencedRunStore) -> None:
    calls: list[tuple[object, ...]] = []

    class Run:
        def start(self) -> None:
            raise AssertionError("started")

    async def create(*arguments: object) -> Run:
        calls.append(arguments)
        await store.persist_snapshot(write(FIRST, updated_at=T0))
        return Run()

    admitted = await store.with_initial_admission(InitialAdmission(RUN), create)
    assert isinstance(admitted.value, Run) and calls == [()]
    assert admitted.witness == await row(store)
    assert admitted.witness.snapshot == FIRST and admitted.witness.lifecycle_text is not None


@pytest.mark.req("RS-11")
async def test_a_run_that_exists_is_not_admitted_and_keeps_its_row(store: FencedRunStore, database: Database) -> None:
    first = await admit(store)
    with pytest.raises(RunNotAdmittedError, match="exists"):
        await admit(store, reservation=Reservation("k", "t"))
    assert await row(store) == first
    assert await reservations(database) == []


@pytest.mark.req("RS-11")
async def test_two_admissions_of_one_run_at_once_admit_one(store: FencedRunStore) -> None:
    texts = [FIRST.replace("t1", f"t{n}") for n in range(6)]
    found = await asyncio.gather(*(admit(store, text) for text in texts), return_exceptions=True)
    assert sum(isinstance(each, RunRow) for each in found) == 1
    assert sum(isinstance(each, RunNotAdmittedError) for each in found) == 5


@pytest.mark.req("RS-11", "RS-70")
async def test_row_and_reservation_are_written_together_or_not_at_all(
    store: FencedRunStore, database: Database
) -> None:
    await admit(store, reservation=Reservation("key", "ours"))
    assert await reservations(database) == ["ours"]
    await remove(database)
    with pytest.raises(RunNotAdmittedError, match="reservation"):
        await admit(store, reservation=Reservation("key", "another"))
    assert await store.read_snapshot(RUN) is None
    assert await reservations(database) == ["ours"]
    await admit(store, reservation=Reservation("key", "ours"))


@pytest.mark.req("RS-11")
@pytest.mark.parametrize("rule", ["a second write", "another address", "a nested scope", "no write", "swallowed"])
async def test_a_broken_rule_fails_the_admission(store: FencedRunStore, rule: str) -> None:
    async def create() -> None:
        if rule == "no write":
            return
        if rule != "another address":
            await store.persist_snapshot(write(FIRST))
        if rule == "swallowed":
            with pytest.raises(AdmissionBrokenError):
                await store.persist_snapshot(write(FIRST))
        elif rule == "a nested scope":
            await store.with_initial_admission(InitialAdmission(OTHER), create)
        elif rule == "a second write":
            await store.persist_snapshot(write(FIRST))
        else:
            await store.persist_snapshot(write(FIRST, OTHER))

    with pytest.raises(AdmissionBrokenError):
        await store.with_initial_admission(InitialAdmission(RUN), create)
    assert await store.read_snapshot(OTHER) is None


@pytest.mark.req("RS-11")
async def test_a_write_after_the_scope_closed_is_refused(store: FencedRunStore) -> None:
    gate = asyncio.Event()
    late: list[asyncio.Task[None]] = []

    async def write_late() -> None:
        await gate.wait()
        await store.persist_snapshot(write(FIRST))

    async def create() -> None:
        await store.persist_snapshot(write(FIRST, updated_at=T0))
        late.append(asyncio.create_task(write_late()))

    await store.with_initial_admission(InitialAdmission(RUN), create)
    gate.set()
    with pytest.raises(AdmissionBrokenError, match="closed"):
        await late[0]
    await store.persist_snapshot(write(snapshot()))


@pytest.mark.req("RS-11")
async def test_a_write_that_create_run_did_not_wait_for_is_waited_for(store: FencedRunStore) -> None:
    tasks: list[asyncio.Task[None]] = []

    async def create() -> None:
        tasks.append(asyncio.create_task(store.persist_snapshot(write(FIRST))))
        await asyncio.sleep(0)

    admitted = await store.with_initial_admission(InitialAdmission(RUN), create)
    assert admitted.witness.snapshot == FIRST
    await tasks[0]


@pytest.mark.req("RS-11")
@pytest.mark.parametrize(
    ("text", "error"),
    [
        (snapshot(None, "running"), AdmissionBrokenError),
        (snapshot(None, "pending", ',"activePaths":{"a":[0]}'), AdmissionBrokenError),
        (snapshot(None, "pending", ',"activePaths":["a"]'), AdmissionBrokenError),
        (unparsed(None, "pending"), RunStateNotStorableError),
        ("[]", MalformedRunInputError),
        ("{bad", MalformedRunInputError),
    ],
)
async def test_an_initial_snapshot_is_pending_storable_and_has_no_active_paths(
    store: FencedRunStore, text: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await admit(store, text)
    assert await store.read_snapshot(RUN) is None


@pytest.mark.req("RS-11", "RS-50")
async def test_a_fenced_admission_inside_a_leg_tells_its_scope(store: FencedRunStore, database: Database) -> None:
    """subtle-points, Workflows 10"""
    leg = StoredRunScope(RUN.workflow_id, RUN.run_id)

    async def operate() -> None:
        await admit(store)
        assert leg.row_stored
        await remove(database)
        assert await store.touch_run(RUN, T1) is Liveness.ABSENT
        with pytest.raises(RunSettledConflictError):
            await store.persist_snapshot(write(snapshot()))

    await store.with_stored_run(leg, operate)
    assert await store.read_snapshot(RUN) is None


@pytest.mark.req("RS-12")
@pytest.mark.parametrize("reservation", [None, Reservation("key", "ours")])
async def test_a_lost_answer_of_an_admission_is_resolved_by_reading(
    driver: Driver, database: Database, reservation: Reservation | None
) -> None:
    lossy = LossyDriver(driver)
    store = FencedRunStore(Database(lossy), PREFIX)
    lossy.loses = "before"
    with pytest.raises(RunOutcomeUnreadableError) as lost:
        await admit(store, reservation=reservation)
    assert lost.value.__cause__ is not None
    lossy.loses = "after"
    witness = await admit(store, reservation=reservation)
    assert witness == await row(store)
    lossy.loses = "after"
    with pytest.raises(RunOutcomeUnreadableError):
        await admit(store, FIRST.replace("t1", "t2"), Reservation("key", "another"))
    assert await row(store) == witness


@pytest.mark.req("RS-71")
async def test_a_lost_answer_of_any_write_is_unreadable_with_its_cause(driver: Driver, database: Database) -> None:
    lossy = LossyDriver(driver)
    store = FencedRunStore(Database(lossy), PREFIX)
    await admit(store)
    first = await row(store)
    calls = (
        lambda: store.touch_run(RUN, T1),
        lambda: store.replace_snapshot(first, Replacement("{}", T1)),
        lambda: store.patch_run_lifecycle(RUN, Expectation("pending", 1), LifecyclePatch('{"revision":2}', 1, T1)),
        lambda: store.persist_snapshot(write(snapshot())),
        lambda: store.terminalize_initial_admission(InitialTerminalization(first, T1)),
    )
    for call in calls:
        lossy.loses = "before"
        with pytest.raises(RunOutcomeUnreadableError) as lost:
            await call()
        assert (lost.value.status, lost.value.code) == (503, "RUN_OUTCOME_UNREADABLE")
        assert lost.value.__cause__ is not None
    assert await row(store) == first


@pytest.mark.req("RS-13")
@pytest.mark.parametrize("is_stopped", [True, False])
async def test_an_admitted_start_ends_failed_and_is_marked_only_on_evidence(
    store: FencedRunStore, is_stopped: bool
) -> None:
    first = await admit(store)
    request = InitialTerminalization(first, T1, is_stopped)
    ended = await store.terminalize_initial_admission(request)
    assert ended.kind is EndKind.TERMINALIZED and ended.row == await row(store)
    stored = json.loads((await row(store)).snapshot)
    assert (stored["status"], stored["error"]) == ("failed", {"code": "START_OUTCOME_UNKNOWN"})
    assert stored["timestamp"] == 1767225601000
    marked = {"revision": 2, "startOutcomeUnknownAt": T1} if is_stopped else {"revision": 1}
    assert stored["lifecycle"] == {"version": 1, "attemptToken": "t1", **marked}
    assert await store.touch_run(RUN, T2) is (Liveness.SETTLED if is_stopped else Liveness.LIVE)


@pytest.mark.req("RS-13")
@pytest.mark.parametrize("to", ["cancelled", "timed_out"])
@pytest.mark.parametrize("parses", [True, False])
async def test_a_stored_intent_decides_how_a_start_ends(
    store: FencedRunStore, database: Database, to: str, parses: bool
) -> None:
    life = f'{{"revision":1,{INTENT.replace("cancelled", to)},"n":1.0}}'
    await put(database, snapshot(life, "pending") if parses else unparsed(life, "pending"))
    ended = await store.terminalize_initial_admission(InitialTerminalization(await row(store), T1))
    assert ended.kind is EndKind.TERMINALIZED and ended.disposition == to
    text = (await row(store)).snapshot
    assert f'"lifecycle":{{"revision":2,"n":1.0,"terminal":{{"status":"{to}","transitionedAt":"{T1}"}}}}' in text
    assert f'"status":"{to}"' in text
    assert await store.touch_run(RUN, T2) is Liveness.SETTLED


@pytest.mark.req("RS-13")
async def test_every_result_of_a_terminalization(store: FencedRunStore, database: Database) -> None:
    first = await admit(store)
    request = InitialTerminalization(first, T1, True)
    await remove(database)
    gone = await store.terminalize_initial_admission(request)
    assert (gone.kind, gone.row) == (EndKind.CONFLICT, None)
    await admit(store)
    kinds = [(await store.terminalize_initial_admission(request)).kind for _ in range(2)]
    assert kinds == [EndKind.TERMINALIZED, EndKind.ALREADY_TERMINALIZED]
    later = await store.terminalize_initial_admission(InitialTerminalization(first, T2, True))
    assert later.kind is EndKind.PROGRESSED
    await put(database, FIRST.replace("pending", "running"), resource_id="res")
    assert (await store.terminalize_initial_admission(request)).kind is EndKind.PROGRESSED
    others = [FIRST.replace("t1", "t2"), FIRST.replace("t1", "t2").replace("pending", "running"), FIRST + " ", "{bad"]
    for other in others:
        await put(database, other, resource_id="res")
        before = await row(store)
        assert (await store.terminalize_initial_admission(request)).kind is EndKind.CONFLICT
        assert await row(store) == before
    await put(database, FIRST.replace("pending", "running"))
    assert (await store.terminalize_initial_admission(request)).kind is EndKind.CONFLICT


@pytest.mark.req("RS-13", "RS-71")
@pytest.mark.parametrize("beside", ["", f",{INTENT}"])
async def test_a_dispute_blocks_the_end_of_a_start(store: FencedRunStore, database: Database, beside: str) -> None:
    await put(database, snapshot(f'{{"revision":1,{DISPUTE}{beside}}}', "pending"))
    before = await row(store)
    with pytest.raises(RunLifecycleBlockedError) as blocked:
        await store.terminalize_initial_admission(InitialTerminalization(before, T1, True))
    assert blocked.value.code == "DISPUTED_SETTLEMENT"
    assert await row(store) == before


@pytest.mark.req("RS-13")
@pytest.mark.parametrize("life", [f'{{"revision":1,{INTENT.replace("cancelled", "sleeping")}}}', "[1]", "5"])
async def test_an_intent_or_a_lifecycle_that_says_nothing_is_not_guessed(
    store: FencedRunStore, database: Database, life: str
) -> None:
    await put(database, snapshot(life, "pending"))
    before = await row(store)
    with pytest.raises(RunOutcomeUnreadableError):
        await store.terminalize_initial_admission(InitialTerminalization(before, T1, True))
    assert await row(store) == before


@pytest.mark.req("RS-13")
async def test_only_an_initial_row_can_be_expected(store: FencedRunStore, database: Database) -> None:
    await put(database, snapshot())
    with pytest.raises(MalformedRunInputError, match="pending"):
        await store.terminalize_initial_admission(InitialTerminalization(await row(store), T1))
