"""Ordinary writes: the settled-row guard, the kept lifecycle, the insert guard, rows of other writers (RS-50 to RS-63)."""

import asyncio
import json

import pytest

from emulator.d1 import Database
from emulator.runstore import FencedRunStore, Liveness, StoredRunScope
from emulator.runstore.errors import (
    MalformedRunInputError,
    RunSettledConflictError,
    RunStateNotStorableError,
)
from tests.emulator.runstore.stores import (
    OTHER,
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

TERMINAL = '"terminal":{"status":"cancelled","transitionedAt":1,"cleanup":false}'
SETTLED = f'{{"revision":5,{TERMINAL},"interruptedAt":7}}'
INTENT = '"transitionIntent":{"to":"cancelled","at":"x"}'
NAMED = '"transitionIntent":{"to":"timed_out","at":"x","expectedDeadlineAt":10}'
DISPUTE = '"economicOperations":[{"id":"a","settlementState":"disputed"}]'


def scope(stored: bool = False) -> StoredRunScope:
    return StoredRunScope(RUN.workflow_id, RUN.run_id, stored)


async def lifecycle(store: FencedRunStore) -> object:
    return json.loads((await row(store)).snapshot).get("lifecycle")


@pytest.mark.req("RS-60")
@pytest.mark.parametrize("parses", [True, False])
@pytest.mark.parametrize(
    ("new", "passes"),
    [
        (SETTLED.replace("5", "6", 1), True),
        (SETTLED.replace("5", "6", 1).replace("false", "true"), True),
        (SETTLED, False),
        (SETTLED.replace("5", "4", 1), False),
        (f'{{"revision":6,{TERMINAL}}}', False),
        (f'{{"revision":6,{TERMINAL},"interruptedAt":8}}', False),
        (f'{{"revision":6,{TERMINAL},"interruptedAt":7,"stateNotStorableAt":1}}', False),
        (SETTLED.replace("5", "6", 1).replace("cancelled", "timed_out"), False),
        (SETTLED.replace("5", "6", 1).replace('"transitionedAt":1', '"transitionedAt":1.0'), False),
        ('{"revision":6}', False),
        ("{}", False),
        (None, False),
    ],
)
async def test_a_settled_row_takes_only_a_later_revision_of_the_same_end(
    store: FencedRunStore, database: Database, new: str | None, passes: bool, parses: bool
) -> None:
    await put(database, snapshot(SETTLED) if parses else unparsed(SETTLED))
    before = await row(store)
    if passes:
        await store.persist_snapshot(write(snapshot(new)))
        assert (await row(store)).snapshot == snapshot(new)
        return
    with pytest.raises(RunSettledConflictError) as refused:
        await store.persist_snapshot(write(snapshot(new)))
    assert refused.value.status == 409
    assert await row(store) == before


KEPT = {
    "a lower revision": ('{"revision":5,"a":1}', '{"revision":4,"b":1}', '{"revision":5,"a":1}'),
    "no revision": ('{"revision":5,"a":1}', '{"b":1}', '{"revision":5,"a":1}'),
    "no lifecycle": ('{"revision":5,"a":1}', None, '{"revision":5,"a":1}'),
    "a lower revision over an intent": (f'{{"revision":5,{INTENT}}}', '{"revision":4}', f'{{"revision":5,{INTENT}}}'),
    "a higher revision": ('{"revision":5,"a":1}', '{"revision":6}', '{"revision":6}'),
    "an equal revision": ('{"revision":5,"a":1}', '{"revision":5,"b":1}', '{"revision":5,"b":1}'),
    "an equal revision over an intent": (
        f'{{"revision":5,{INTENT}}}',
        '{"revision":5,"b":1}',
        f'{{"revision":5,"b":1,{INTENT}}}',
    ),
    "a higher revision over an intent": (f'{{"revision":5,{INTENT}}}', '{"revision":6}', '{"revision":6}'),
    "an equal revision with an intent of its own": (
        f'{{"revision":5,{INTENT}}}',
        f'{{"revision":5,{NAMED}}}',
        f'{{"revision":5,{NAMED}}}',
    ),
    "a deadline that stands": (
        f'{{"revision":5,"deadlineAt":10,{NAMED}}}',
        '{"revision":5,"deadlineAt":10}',
        f'{{"revision":5,"deadlineAt":10,{NAMED}}}',
    ),
    "a deadline that moved": (
        f'{{"revision":5,"deadlineAt":10,{NAMED}}}',
        '{"revision":5,"deadlineAt":11}',
        '{"revision":5,"deadlineAt":11}',
    ),
    "an equal revision with a dispute": (
        f'{{"revision":5,{INTENT}}}',
        f'{{"revision":5,{DISPUTE}}}',
        f'{{"revision":5,{DISPUTE}}}',
    ),
    "a lower revision with a dispute over an intent": (
        f'{{"revision":5,{INTENT}}}',
        f'{{"revision":1,{DISPUTE}}}',
        f'{{"revision":1,{DISPUTE}}}',
    ),
    "a dispute without a revision over an intent": (
        f'{{"revision":5,{INTENT}}}',
        f"{{{DISPUTE}}}",
        f'{{"revision":5,{INTENT}}}',
    ),
    "a lower revision with a dispute and no intent": (
        '{"revision":5}',
        f'{{"revision":1,{DISPUTE}}}',
        '{"revision":5}',
    ),
    "a stored row without a lifecycle": (None, '{"revision":1}', '{"revision":1}'),
}


@pytest.mark.req("RS-61", "RS-62")
@pytest.mark.parametrize("parses", [True, False])
@pytest.mark.parametrize("case", KEPT)
async def test_a_slow_legs_progress_never_erases_what_is_stored_over(
    store: FencedRunStore, database: Database, case: str, parses: bool
) -> None:
    stored, new, kept = KEPT[case]
    await put(database, snapshot(stored) if parses else unparsed(stored))
    await store.persist_snapshot(write(snapshot(new, "suspended", ',"step":9')))
    found = json.loads((await row(store)).snapshot)
    assert found["lifecycle"] == json.loads(kept)
    assert (found["status"], found["step"]) == ("suspended", 9)
    assert (await row(store)).updated_at == T1


@pytest.mark.req("RS-60", "RS-70")
async def test_a_write_that_keeps_nothing_stores_its_bytes(store: FencedRunStore, database: Database) -> None:
    text = ' {"status" : "running", "n":1.0,"n":1e0, "lifecycle" : {"revision":3} }'
    await store.persist_snapshot(write(text, resource_id="res"))
    assert (await row(store)).columns[2:] == ("res", text, T0, T1)
    await store.persist_snapshot(write(text + "\n"))
    assert (await row(store)).columns[2:] == ("res", text + "\n", T0, T1)


@pytest.mark.req("RS-60", "RS-62")
async def test_a_write_sqlite_cannot_parse_is_stored_only_over_a_row_it_cannot_parse(
    store: FencedRunStore, database: Database
) -> None:
    for stored in (snapshot(), snapshot(SETTLED), None):
        await put(database, stored) if stored else await remove(database)
        before = await store.read_snapshot(RUN)
        with pytest.raises(RunStateNotStorableError):
            await store.persist_snapshot(write(unparsed('{"revision":99}')))
        assert await store.read_snapshot(RUN) == before
    await put(database, unparsed('{"revision":3,"a":1}'))
    await store.persist_snapshot(write(unparsed('{"revision":2}', "slow")))
    assert (await row(store)).snapshot == unparsed('{"revision":3,"a":1}', "slow")
    await put(database, "{bad")
    await store.persist_snapshot(write(unparsed('{"revision":1}')))
    assert (await row(store)).snapshot == unparsed('{"revision":1}')
    with pytest.raises(RunSettledConflictError):
        await put(database, unparsed(SETTLED))
        await store.persist_snapshot(write(unparsed('{"revision":6}')))


@pytest.mark.req("RS-62")
async def test_a_row_sqlite_cannot_parse_stays_readable_touchable_and_writable(
    store: FencedRunStore, database: Database
) -> None:
    await put(database, unparsed('{"revision":2}'), resource_id="res")
    assert (await row(store)).snapshot == unparsed('{"revision":2}')
    assert await store.touch_run(RUN, T1) is Liveness.LIVE
    await store.persist_snapshot(write(snapshot('{"revision":3}')))
    assert (await row(store)).columns[2:] == ("res", snapshot('{"revision":3}'), T0, T1)


@pytest.mark.req("RS-63")
@pytest.mark.parametrize(
    "text",
    ["{a:1}", "{'a':1}", '{"a":1,}', '{"a":[1,]}', "{/*c*/}", "{}//c", '{"a":+1}', '{"a":.5}', '{"a":0x1}',
     '{"a":Infinity}', '{"a":NaN}', '{"a":"\t"}', "{}\0", "\ufeff{}", '{"a":01}', "[]", "", "{} x"],
)  # fmt: skip
async def test_only_strict_json_is_storable(store: FencedRunStore, database: Database, text: str) -> None:
    with pytest.raises(MalformedRunInputError):
        await store.persist_snapshot(write(text))
    assert await store.read_snapshot(RUN) is None
    await put(database, unparsed())
    before = await row(store)
    with pytest.raises(MalformedRunInputError):
        await store.persist_snapshot(write(text))
    assert await row(store) == before


@pytest.mark.req("RS-50")
async def test_once_a_leg_has_stored_its_row_no_write_of_it_inserts(store: FencedRunStore, database: Database) -> None:
    leg, told = scope(), []

    async def operate() -> None:
        await store.persist_snapshot(write(snapshot(), OTHER))
        told.append(leg.row_stored)
        await store.persist_snapshot(write(snapshot()))
        told.append(leg.row_stored)
        await remove(database)
        with pytest.raises(RunSettledConflictError):
            await store.persist_snapshot(write(snapshot()))
        with pytest.raises(RunStateNotStorableError):
            await store.persist_snapshot(write(unparsed()))
        assert await store.read_snapshot(RUN) is None
        await remove(database, OTHER)
        await store.persist_snapshot(write(snapshot(), OTHER))

    await store.with_stored_run(leg, operate)
    assert told == [False, True]
    await store.persist_snapshot(write(snapshot()))
    assert await lifecycle(store)


@pytest.mark.req("RS-50")
async def test_the_callers_own_scope_is_looked_at_anew_at_every_write(
    store: FencedRunStore, database: Database
) -> None:
    leg = scope()

    async def operate() -> str:
        await store.persist_snapshot(write(snapshot()))
        await remove(database)
        leg.row_stored = False
        await store.persist_snapshot(write(snapshot()))
        await remove(database)
        leg.row_stored = True
        with pytest.raises(RunSettledConflictError):
            await store.persist_snapshot(write(snapshot()))
        return "value"

    assert await store.with_stored_run(leg, operate) == "value"


@pytest.mark.req("RS-50", "RS-20")
@pytest.mark.parametrize("how", ["a resume began", "a fenced admission", "neither"])
async def test_a_row_that_vanishes_is_not_inserted_again_by_its_leg(
    store: FencedRunStore, database: Database, how: str
) -> None:
    """subtle-points, Workflows 10: touch tells absent; only a start without an admission, whose scope is false, may insert."""
    await put(database, snapshot())
    leg = scope(how != "neither")

    async def operate() -> None:
        await remove(database)
        assert await store.touch_run(RUN, T1) is Liveness.ABSENT
        await store.persist_snapshot(write(snapshot()))

    if how == "neither":
        await store.with_stored_run(leg, operate)
        assert leg.row_stored and await store.read_snapshot(RUN)
        return
    with pytest.raises(RunSettledConflictError):
        await store.with_stored_run(leg, operate)
    assert await store.read_snapshot(RUN) is None


@pytest.mark.req("RS-50")
async def test_concurrent_tasks_each_see_their_own_scope(store: FencedRunStore, database: Database) -> None:
    first, second = scope(True), StoredRunScope(OTHER.workflow_id, OTHER.run_id, True)
    gate = asyncio.Event()

    async def refused_at(address_is_first: bool) -> None:
        await gate.wait()
        with pytest.raises(RunSettledConflictError):
            await store.persist_snapshot(write(snapshot(), RUN if address_is_first else OTHER))

    legs = [
        asyncio.create_task(store.with_stored_run(first, lambda: refused_at(True))),
        asyncio.create_task(store.with_stored_run(second, lambda: refused_at(False))),
    ]
    await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(*legs)
    assert await store.read_snapshot(RUN) is None
