"""What is read, and what is compared as text or as a value (RS-01, RS-02, RS-10)."""

import json
from dataclasses import replace

import pytest

from emulator.d1 import Database
from emulator.runstore import (
    Expectation,
    FencedRunStore,
    LifecyclePatch,
    Liveness,
    Replacement,
    RunAddress,
    RunRow,
)
from emulator.runstore.errors import MalformedRunInputError, RunSettledConflictError
from tests.emulator.runstore.stores import (
    OTHER,
    RUN,
    T0,
    T1,
    d1_address,
    database,
    driver,
    put,
    row,
    snapshot,
    store,
    unparsed,
    write,
)

__all__ = ["d1_address", "database", "driver", "store"]

STORED = '{"revision":2,"b":1.50,"a":"\\u00e9"}'
NEXT = LifecyclePatch('{"revision":3}', 5, T1)


@pytest.mark.req("RS-10")
async def test_the_row_is_read_raw_or_there_is_none(store: FencedRunStore, database: Database) -> None:
    text = ' {"status" : "running",\t"n":1e0,"s":"\\u0041/\\/é","n":2} '
    await put(database, text, resource_id="res")
    assert await store.read_snapshot(RUN) == RunRow(RUN.workflow_id, RUN.run_id, "res", text, T0, T0, None)
    assert await store.read_snapshot(OTHER) is None
    await put(database, "{not json at all")
    assert (await row(store)).snapshot == "{not json at all"
    assert (await row(store)).resource_id is None


@pytest.mark.req("RS-02")
@pytest.mark.parametrize(
    ("stored", "text"),
    [
        ('{ "revision" : 2 ,\n"b": 1.50, "a":"\\u00e9 x" }', '{"revision":2,"b":1.50,"a":"\\u00e9 x"}'),
        ('{"z":-0,"a":1e0,"a":1.0,"s":"\\/"}', '{"z":-0,"a":1e0,"a":1.0,"s":"\\/"}'),
        ("[1, 2]", "[1,2]"),
        ("null", "null"),
        (None, None),
    ],
)
async def test_the_lifecycle_text_is_the_stored_one_without_white_space(
    store: FencedRunStore, database: Database, stored: str | None, text: str | None
) -> None:
    await put(database, snapshot(stored))
    assert (await row(store)).lifecycle_text == text


@pytest.mark.req("RS-02")
async def test_a_row_that_sqlite_cannot_parse_has_no_lifecycle_text(store: FencedRunStore, database: Database) -> None:
    await put(database, unparsed())
    assert (await row(store)).lifecycle_text is None


@pytest.mark.req("RS-01")
@pytest.mark.parametrize(
    ("expected", "is_met"),
    [
        (STORED, True),
        (' { "revision" : 2, "b":\t1.50,\n"a" : "\\u00e9" } ', True),
        (json.dumps(json.loads(STORED)), False),
        ('{"revision":2,"b":1.50,"a":"é"}', False),
        ('{"a":"\\u00e9","b":1.50,"revision":2}', False),
        ('{"revision":2,"b":1.50,"a":"\\u00E9"}', False),
        ('{"revision":2.0,"b":1.50,"a":"\\u00e9"}', False),
        ('{"revision":2,"b":1.50,"a":"\\u00e9","a":"\\u00e9"}', False),
        ('{"revision":2,"b":1.50}', False),
    ],
)
async def test_a_patch_compares_the_lifecycle_as_text(
    store: FencedRunStore, database: Database, expected: str, is_met: bool
) -> None:
    """subtle-points, Workflows 9"""
    await put(database, snapshot(STORED))
    before = await row(store)
    assert await store.patch_run_lifecycle(RUN, Expectation("running", 2, expected), NEXT) is is_met
    assert (await row(store) == before) is not is_met


@pytest.mark.req("RS-01")
@pytest.mark.parametrize(
    ("status", "revision", "is_met"),
    [
        ('"running"', "2", True),
        ('"\\u0072unning"', "2.0", True),
        ('"running"', "2e0", True),
        ('"running"', '"2"', False),
        ('"running"', "true", False),
        ('"running "', "2", False),
        ("5", "2", False),
        ("null", "2", False),
    ],
)
async def test_status_and_revision_are_compared_as_values(
    store: FencedRunStore, database: Database, status: str, revision: str, is_met: bool
) -> None:
    await put(database, f'{{"status":{status},"lifecycle":{{"revision":{revision}}}}}')
    assert await store.patch_run_lifecycle(RUN, Expectation("running", 2), NEXT) is is_met
    await put(database, '{"status":"5","lifecycle":{"revision":1}}')
    assert await store.patch_run_lifecycle(RUN, Expectation("5", 1), LifecyclePatch('{"revision":2}', 5, T1))


@pytest.mark.req("RS-01")
@pytest.mark.parametrize("parses", [True, False])
async def test_of_a_repeated_key_the_first_decides_everywhere(
    store: FencedRunStore, database: Database, parses: bool
) -> None:
    """subtle-points, Workflows 9: settled only in the second: unsettled for touch, guard and patch, and for a decision made in Python alike."""
    twice = '{"revision":2},"lifecycle":{"revision":9,"terminal":{"status":"cancelled"}}'
    await put(database, snapshot(twice) if parses else unparsed(twice))
    assert await store.touch_run(RUN, T1) is Liveness.LIVE
    assert await store.patch_run_lifecycle(RUN, Expectation("running", 2), NEXT) is parses
    await store.persist_snapshot(write(snapshot('{"revision":4}')))
    assert (await row(store)).lifecycle_text == '{"revision":4}'
    settled = '{"revision":2,"terminal":1},"lifecycle":{"revision":2}'
    await put(database, snapshot(settled) if parses else unparsed(settled))
    assert await store.touch_run(RUN, T1) is Liveness.SETTLED
    with pytest.raises(RunSettledConflictError):
        await store.persist_snapshot(write(snapshot('{"revision":2}')))


@pytest.mark.req("RS-01")
@pytest.mark.parametrize("column", ["resource_id", "snapshot", "created_at", "updated_at"])
async def test_a_replacement_compares_every_column_byte_for_byte(
    store: FencedRunStore, database: Database, column: str
) -> None:
    await put(database, snapshot(), resource_id="res")
    read = await row(store)
    for other in ("x", None):
        changed = replace(read, **{column: other or ("" if column != "resource_id" else None)})  # type: ignore[arg-type]
        assert not await store.replace_snapshot(changed, Replacement("{}", T1))
    blanks = replace(read, snapshot=read.snapshot + " ")
    assert not await store.replace_snapshot(blanks, Replacement("{}", T1))
    assert await row(store) == read
    assert await store.replace_snapshot(read, Replacement("{}", T1))


@pytest.mark.req("RS-10", "RS-20", "RS-40")
@pytest.mark.parametrize("bad", ["", "x" * 257, "\ud800"])
async def test_a_malformed_address_is_refused_everywhere(store: FencedRunStore, bad: str) -> None:
    for address in (RunAddress(bad, "r"), RunAddress("w", bad)):
        with pytest.raises(MalformedRunInputError):
            await store.read_snapshot(address)
        with pytest.raises(MalformedRunInputError):
            await store.touch_run(address, T1)
        with pytest.raises(MalformedRunInputError):
            await store.patch_run_lifecycle(address, Expectation("running"), NEXT)
        with pytest.raises(MalformedRunInputError):
            await store.persist_snapshot(write("{}", address))
