"""Touch, replace and patch: what they write, when they write nothing, and what they refuse (RS-20, RS-30, RS-40)."""

import json

import pytest

from emulator.d1 import Database
from emulator.runstore import Expectation, FencedRunStore, LifecyclePatch, Liveness, Replacement
from emulator.runstore.errors import MalformedRunInputError, RunSettledConflictError, RunStateNotStorableError
from emulator.runstore.readings import SETTLING_MARKERS
from tests.emulator.runstore.stores import (
    OTHER,
    RUN,
    T0,
    T1,
    T2,
    d1_address,
    database,
    driver,
    nested,
    put,
    remove,
    row,
    snapshot,
    store,
    unparsed,
    write,
)

__all__ = ["d1_address", "database", "driver", "store"]

NEXT = LifecyclePatch('{"version":1,"revision":3}', 5, T1)
NOT_INSTANTS = [
    "2026-02-30T00:00:00.000Z",
    "2026-01-01T24:00:00.000Z",
    "2026-01-01T00:00:00Z",
    "2026-01-01T00:00:00.000+00:00",
    "2026-01-01 00:00:00.000Z",
    "2026-01-01T00:00:60.000Z",
    "2026-01-01T00:00:00.000z",
    "+002026-01-01T00:00:00.000Z",
    "-000000-01-01T00:00:00.000Z",
    "+275760-09-13T00:00:00.001Z",
    "\uff12026-01-01T00:00:00.000Z",
    "",
]


@pytest.mark.req("RS-20")
@pytest.mark.parametrize("text", [snapshot(), snapshot(None), unparsed(), unparsed(None), "{bad", "[]"])
async def test_a_touch_sets_updated_at_alone(store: FencedRunStore, database: Database, text: str) -> None:
    await put(database, text, resource_id="res")
    assert await store.touch_run(RUN, T1) is Liveness.LIVE
    touched = await row(store)
    assert touched.columns == (RUN.workflow_id, RUN.run_id, "res", text, T0, T1)


@pytest.mark.req("RS-20", "RS-60")
@pytest.mark.parametrize("marker", SETTLING_MARKERS)
@pytest.mark.parametrize("parses", [True, False])
async def test_a_settled_row_is_told_left_alone_and_refuses_later_writes(
    store: FencedRunStore, database: Database, marker: str, parses: bool
) -> None:
    settled = f'{{"revision":2,"{marker}":"x"}}'
    await put(database, snapshot(settled) if parses else unparsed(settled))
    before = await row(store)
    assert await store.touch_run(RUN, T1) is Liveness.SETTLED
    with pytest.raises(RunSettledConflictError):
        await store.persist_snapshot(write(snapshot('{"revision":2}')))
    assert await row(store) == before
    await put(database, snapshot(f'{{"revision":2,"{marker}":null}}'))
    assert await store.touch_run(RUN, T1) is Liveness.LIVE


@pytest.mark.req("RS-20")
async def test_absent_is_told_only_of_a_row_that_is_gone(store: FencedRunStore, database: Database) -> None:
    await put(database, snapshot(), OTHER)
    assert await store.touch_run(RUN, T1) is Liveness.ABSENT
    assert await store.touch_run(OTHER, T1) is Liveness.LIVE
    await remove(database, OTHER)
    assert await store.touch_run(OTHER, T1) is Liveness.ABSENT


@pytest.mark.req("RS-20", "RS-30", "RS-40")
@pytest.mark.parametrize("bad", NOT_INSTANTS)
async def test_only_the_text_of_to_iso_string_is_an_instant(
    store: FencedRunStore, database: Database, bad: str
) -> None:
    await put(database, snapshot())
    before = await row(store)
    with pytest.raises(MalformedRunInputError, match="toISOString"):
        await store.touch_run(RUN, bad)
    with pytest.raises(MalformedRunInputError, match="toISOString"):
        await store.replace_snapshot(before, Replacement("{}", bad))
    for patch in (LifecyclePatch(NEXT.lifecycle, 5, bad), LifecyclePatch(NEXT.lifecycle, bad, T1)):
        with pytest.raises(MalformedRunInputError, match="toISOString"):
            await store.patch_run_lifecycle(RUN, Expectation("running", 2), patch)
    assert await row(store) == before


@pytest.mark.req("RS-30")
async def test_a_replacement_writes_the_bytes_given_outside_the_guard(
    store: FencedRunStore, database: Database
) -> None:
    await put(database, snapshot('{"revision":9,"terminal":{"status":"cancelled"}}'))
    text = ' { "status":"\\u0041", "n":1.0, "n":1e0 }\n'
    for instant in (T1, "+010000-01-01T00:00:00.000Z", "-000001-12-31T23:59:59.999Z", "2024-02-29T23:59:59.999Z"):
        assert await store.replace_snapshot(await row(store), Replacement(text, instant))
        replaced = await row(store)
        assert (replaced.snapshot, replaced.updated_at, replaced.created_at) == (text, instant, T0)


@pytest.mark.req("RS-30", "RS-63")
@pytest.mark.parametrize("text", ["", "[]", "1", '"{}"', "null", "{", "{a:1}", '{"a":1,}', "{}//", "{}\0", "{} {}"])
async def test_a_replacement_that_is_no_json_object_is_refused(
    store: FencedRunStore, database: Database, text: str
) -> None:
    for stored in (snapshot(), unparsed(), "{bad"):
        await put(database, stored)
        before = await row(store)
        with pytest.raises(MalformedRunInputError):
            await store.replace_snapshot(before, Replacement(text, T1))
        assert await row(store) == before


@pytest.mark.req("RS-30")
async def test_what_sqlite_cannot_parse_replaces_only_what_it_cannot_parse_either(
    store: FencedRunStore, database: Database
) -> None:
    deep = unparsed('{"revision":7}')
    await put(database, snapshot())
    before = await row(store)
    with pytest.raises(RunStateNotStorableError):
        await store.replace_snapshot(before, Replacement(deep, T1))
    assert await row(store) == before
    for stored in (unparsed(), "{bad"):
        await put(database, stored)
        before = await row(store)
        assert await store.replace_snapshot(before, Replacement(deep, T1))
        assert (await row(store)).snapshot == deep
        assert not await store.replace_snapshot(before, Replacement(deep, T2))
    await remove(database)
    assert not await store.replace_snapshot(before, Replacement(deep, T1))
    assert not await store.replace_snapshot(before, Replacement("{}", T1))
    assert await store.read_snapshot(RUN) is None


@pytest.mark.req("RS-40")
async def test_a_patch_writes_lifecycle_timestamp_and_updated_at_alone(
    store: FencedRunStore, database: Database
) -> None:
    await put(
        database,
        '{ "n":1.50, "lifecycle" : {"revision":2, "x":1}, "e":1e0,"s":"\\u00e9\\/é", "n":2 ,"timestamp":1,"z":-0,'
        '"status":"running"}',
        resource_id="res",
    )
    change = LifecyclePatch('{ "revision": 3, "a": 1.0, "deadlineAt":"\\u0041" }', 77, T1)
    assert await store.patch_run_lifecycle(RUN, Expectation("running", 2), change)
    patched = await row(store)
    assert patched.snapshot == (
        '{"n":1.50,"lifecycle":{"revision":3,"a":1.0,"deadlineAt":"\\u0041"},"e":1e0,"s":"\\u00e9\\/é","n":2,'
        '"timestamp":77,"z":-0,"status":"running"}'
    )
    assert patched.columns[2:] == ("res", patched.snapshot, T0, T1)
    text = LifecyclePatch('{"revision":4}', T2, T2)
    assert await store.patch_run_lifecycle(RUN, Expectation("running", 3, patched.lifecycle_text), text)
    assert json.loads((await row(store)).snapshot)["timestamp"] == T2


MISSES = {
    "another status": (snapshot(), Expectation("pending", 2)),
    "another revision": (snapshot(), Expectation("running", 3)),
    "a lifecycle though none is expected": (snapshot(), Expectation("running")),
    "no lifecycle though one is expected": (snapshot(None), Expectation("running", 2)),
    "another lifecycle of the revision": (snapshot(), Expectation("running", 2, '{"version":1,"revision":2,"a":1}')),
    "a lifecycle without its revision": (snapshot(), Expectation("running", None, '{"version":1,"revision":2}')),
    "a settled row": (snapshot('{"revision":2,"interruptedAt":1}'), Expectation("running", 2)),
    "a disputed operation": (
        snapshot('{"revision":2,"economicOperations":["x",{"id":"a","settlementState":"disputed"}]}'),
        Expectation("running", 2),
    ),
    "a row sqlite cannot parse": (unparsed(), Expectation("running", 2)),
    "no json at all": ("{bad", Expectation("running", 2)),
    "an expectation nested too deep": (snapshot(), Expectation("running", 2, f'{{"a":{nested(1000)}}}')),
}


@pytest.mark.req("RS-40")
@pytest.mark.parametrize("case", MISSES)
async def test_a_patch_misses_and_writes_nothing_over(store: FencedRunStore, database: Database, case: str) -> None:
    stored, expected = MISSES[case]
    await put(database, stored)
    before = await row(store)
    assert not await store.patch_run_lifecycle(RUN, expected, NEXT)
    assert await row(store) == before
    assert not await store.patch_run_lifecycle(OTHER, expected, NEXT)
    assert await store.read_snapshot(OTHER) is None


@pytest.mark.req("RS-40")
@pytest.mark.parametrize("stored", [snapshot(None), snapshot("null")])
async def test_a_run_without_a_lifecycle_is_patched_when_none_is_expected(
    store: FencedRunStore, database: Database, stored: str
) -> None:
    await put(database, stored)
    assert await store.patch_run_lifecycle(RUN, Expectation("running"), LifecyclePatch('{"revision":1}', 5, T1))
    assert (await row(store)).lifecycle_text == '{"revision":1}'


@pytest.mark.req("RS-40")
async def test_progress_does_not_make_a_patch_miss_and_the_same_revision_can_hide_another_lifecycle(
    store: FencedRunStore, database: Database
) -> None:
    """subtle-points, Workflows 9"""
    await put(database, snapshot('{"revision":2,"a":1}'))
    read = await row(store)
    await store.persist_snapshot(write(snapshot('{"revision":2,"a":1}', more=',"step":7')))
    expected = Expectation("running", 2, read.lifecycle_text)
    await put(database, snapshot('{"revision":2,"a":2}', more=',"step":7'))
    assert not await store.patch_run_lifecycle(RUN, expected, NEXT)
    assert await store.patch_run_lifecycle(RUN, Expectation("running", 2), NEXT)
    assert json.loads((await row(store)).snapshot)["step"] == 7


@pytest.mark.req("RS-40")
@pytest.mark.parametrize(
    ("expected", "patch"),
    [
        (Expectation(""), NEXT),
        (Expectation("\ud800"), NEXT),
        (Expectation("running", -1), NEXT),
        (Expectation("running", 2**53), NEXT),
        (Expectation("running", True), NEXT),
        (Expectation("running", 2, "[]"), NEXT),
        (Expectation("running", 2, "{a:1}"), NEXT),
        (Expectation("running", 2), LifecyclePatch("[]", 5, T1)),
        (Expectation("running", 2), LifecyclePatch('{"revision":3,}', 5, T1)),
        (Expectation("running", 2), LifecyclePatch('{"version":1}', 5, T1)),
        (Expectation("running", 2), LifecyclePatch('{"revision":"3"}', 5, T1)),
        (Expectation("running", 2), LifecyclePatch('{"revision":1}', 5, T1)),
        (Expectation("running", 2), LifecyclePatch('{"revision":3}', True, T1)),
        (Expectation("running", 2), LifecyclePatch('{"revision":3}', 10**16, T1)),
    ],
)
async def test_a_malformed_expectation_or_patch_raises_and_writes_nothing(
    store: FencedRunStore, database: Database, expected: Expectation, patch: LifecyclePatch
) -> None:
    await put(database, snapshot())
    before = await row(store)
    with pytest.raises(MalformedRunInputError):
        await store.patch_run_lifecycle(RUN, expected, patch)
    assert await row(store) == before


@pytest.mark.req("RS-40", "RS-71")
async def test_a_patch_that_would_make_the_row_unreadable_to_sqlite_is_refused(
    store: FencedRunStore, database: Database
) -> None:
    await put(database, snapshot())
    for depth, fits in ((998, True), (999, False)):
        patch = LifecyclePatch(f'{{"revision":3,"a":{nested(depth)}}}', 5, T1)
        if fits:
            assert await store.patch_run_lifecycle(RUN, Expectation("running", 2), patch)
            continue
        with pytest.raises(RunStateNotStorableError) as refused:
            await store.patch_run_lifecycle(RUN, Expectation("running", 3), patch)
        assert (refused.value.status, refused.value.code) == (422, "RUN_STATE_NOT_STORABLE")
    assert (await row(store)).lifecycle_text is not None
