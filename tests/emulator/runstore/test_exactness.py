"""The text exactness table, the same on both drivers; Python's reading of JSON against SQLite's (RS-01, RS-62, RS-63)."""

import json

import apsw
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as some

from emulator.d1 import Database
from emulator.runstore import Expectation, FencedRunStore, LifecyclePatch, Replacement
from emulator.runstore import readings as sql
from emulator.runstore.errors import MalformedRunInputError, RunStateNotStorableError
from emulator.runstore.instants import milliseconds
from emulator.runstore.rules import Verdict, is_disputed, is_settled, judge_write, merge
from emulator.runstore.texts import NotJsonError, Number, child, minified, quick_members, scan, with_members
from host.model.time import LATEST_MS, timestamp
from tests.emulator.runstore.exactness import CASES, Case, Fate
from tests.emulator.runstore.stores import (
    RUN,
    T1,
    d1_address,
    database,
    driver,
    put,
    row,
    snapshot,
    store,
    write,
)

__all__ = ["d1_address", "database", "driver", "store"]

SQLITE = apsw.Connection(":memory:")


def lifecycle(member: str, revision: int = 2) -> str:
    return f'{{"revision":{revision},"x":{member}}}'


@pytest.mark.req("RS-01", "RS-63")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
async def test_the_exactness_table(store: FencedRunStore, database: Database, case: Case) -> None:
    patch = LifecyclePatch(lifecycle(case.expected, 3), 1, T1)
    await put(database, snapshot(lifecycle(case.stored)))
    before = await row(store)
    call = store.patch_run_lifecycle(RUN, Expectation("running", 2, lifecycle(case.expected)), patch)
    if case.fate in (Fate.REFUSED, Fate.TOO_DEEP):
        with pytest.raises(MalformedRunInputError if case.fate is Fate.REFUSED else RunStateNotStorableError):
            await call
        assert await row(store) == before
        return
    assert await call is (case.fate is Fate.MATCHES)
    if case.fate is Fate.MATCHES:
        assert (await row(store)).lifecycle_text == minified(patch.lifecycle)


@pytest.mark.req("RS-01", "RS-63")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
async def test_every_spelling_is_stored_byte_for_byte_or_refused(store: FencedRunStore, case: Case) -> None:
    text = snapshot(lifecycle(case.expected))
    if case.fate is Fate.REFUSED:
        with pytest.raises(MalformedRunInputError):
            await store.persist_snapshot(write(text))
        return
    if case.fate is Fate.TOO_DEEP:
        with pytest.raises(RunStateNotStorableError):
            await store.persist_snapshot(write(text))
        return
    await store.persist_snapshot(write(text))
    read = await row(store)
    assert read.snapshot == text
    assert await store.replace_snapshot(read, Replacement(text + " ", T1))
    assert (await row(store)).snapshot == text + " "


def json_valid(text: str) -> bool:
    return SQLITE.execute("SELECT json_valid(?)", (text,)).fetchone() == (1,)


FRAGMENTS = some.sampled_from(
    ["{", "}", "[", "]", ",", ":", '"a"', '"\\u00e9"', '"\\x"', "1", "-0", "01", "1.", "1e5", ".5", "true", "nul", " ",
     "\n", "\x0b", "'a'", "a", "//", '"\t"', "\ufeff", "null", "+1", '"']
)  # fmt: skip
VALUES = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats(allow_nan=False, allow_infinity=False) | some.text(),
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(some.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.req("RS-62", "RS-63")
@settings(deadline=None)
@given(some.lists(FRAGMENTS, max_size=9).map("".join))
def test_what_python_takes_for_json_sqlite_does(text: str) -> None:
    try:
        scan(text)
    except NotJsonError:
        assert not json_valid(text)
    else:
        assert json_valid(text)


@pytest.mark.req("RS-01", "RS-63")
@settings(deadline=None)
@given(some.lists(FRAGMENTS, max_size=9).map("".join))
@example('{"a":NaN}')
@example('{"a":-Infinity}')
@example('{"a":"\t"}')
@example('{"a":1,"b":"1","a":2}')
@example('{"a":01}')
@example('\ufeff{"a":1}')
def test_the_quick_reader_takes_nothing_that_is_not_json_and_the_first_of_each_key(text: str) -> None:
    members = quick_members(text)
    if members is None:
        assert not is_small_object(text)
        return
    assert json_valid(text)
    for key, value in members.items():
        first = child(text, key)
        assert first is not None
        assert (first == value) is isinstance(value, Number)


def is_small_object(text: str) -> bool:
    try:
        return scan(text).kind == "{"
    except NotJsonError:
        return False


@pytest.mark.req("RS-63", "RS-40")
def test_what_nests_deep_is_left_to_the_reader_without_recursion() -> None:
    for depth in (101, 100_000):
        assert quick_members('{"a":' * depth + "1" + "}" * depth) is None
    assert quick_members('{"a":' * 100 + "9" * 5000 + "}" * 100) is not None


@pytest.mark.req("RS-62")
@settings(deadline=None)
@given(VALUES, some.booleans(), some.sampled_from([None, 1]))
def test_splicing_changes_nothing_else(value: object, escaped: bool, indent: int | None) -> None:
    inner = json.dumps(value, ensure_ascii=escaped, indent=indent).replace("\ud800", "?")
    text = f' {{"a" : {inner}, "b":1e0,"a":2 }} '
    layout = scan(text)
    assert [each.key for each in layout.children] == ["a", "b", "a"]
    assert json.loads(child(text, "a") or "") == json.loads(inner)
    assert with_members(text, {"b": "7"}) == '{"a" : ' + inner + ',"b":7,"a":2}'
    assert with_members(text, {"a": None, "c": "[]"}) == '{"b":1e0,"a":2,"c":[]}'
    assert json.loads(minified(text)) == json.loads(text)


NUMBERS = some.sampled_from(["0", "1", "2", "2.0", "20e-1", '"2"', "true", "null", "9007199254740993", "1e400"])
MARKS = some.sampled_from(
    ["null", "1", "1.0", '"x"', '{"status":"a"}', '{"status":"a","transitionedAt":1,"n":2}', "[]"]
)
INTENTS = some.sampled_from(
    ["null", '{"to":"cancelled"}', '{"to":"timed_out","expectedDeadlineAt":1}', '{"expectedDeadlineAt":"1"}', "5"]
)
OPERATIONS = some.sampled_from(
    ["null", "[]", '[{"settlementState":"disputed"}]', '["x",{"settlementState":"\\u0064isputed"}]', '"disputed"',
     '[{"settlementState":1}]', '{"a":{"settlementState":"disputed"}}', '[[{"settlementState":"disputed"}]]']
)  # fmt: skip
MEMBERS = some.lists(
    some.one_of(
        some.tuples(some.just("revision"), NUMBERS),
        some.tuples(some.sampled_from(["terminal", "interruptedAt", "stateNotStorableAt"]), MARKS),
        some.tuples(some.just("transitionIntent"), INTENTS),
        some.tuples(some.just("economicOperations"), OPERATIONS),
        some.tuples(some.just("deadlineAt"), some.sampled_from(["1", "1.0", '"1"', "null", "2"])),
    ),
    max_size=5,
)
LIFECYCLES = some.none() | some.sampled_from(["null", "5", "[]"]) | MEMBERS.map(
    lambda members: "{" + ",".join(f'"{key}":{value}' for key, value in members) + "}"
)  # fmt: skip
DECIDE = f"""
SELECT {sql.is_settled("s")}, {sql.is_disputed("n")}, {sql.keeps_lifecycle("s", "n")}, {sql.keeps_intent("s", "n")},
    {sql.revision("n")} > {sql.revision("s")} AND {sql.has_same_identity("s", "n")}
FROM (SELECT ?1 AS s, ?2 AS n)
"""


@pytest.mark.req("RS-60", "RS-61", "RS-62")
@settings(deadline=None)
@given(LIFECYCLES, LIFECYCLES)
def test_decisions_in_python_are_those_of_the_sql(stored: str | None, new: str | None) -> None:
    [(settled, disputed, keeps_lifecycle, keeps_intent, passes)] = SQLITE.execute(
        DECIDE, (snapshot(stored), snapshot(new))
    ).fetchall()
    assert is_settled(stored) == bool(settled)
    assert is_disputed(new) == bool(disputed)
    verdict = judge_write(stored, new)
    if settled:
        assert verdict is (Verdict.AS_WRITTEN if passes else Verdict.REFUSED)
    elif keeps_lifecycle:
        assert verdict is Verdict.KEEPS_LIFECYCLE
    else:
        assert verdict is (Verdict.KEEPS_INTENT if keeps_intent else Verdict.AS_WRITTEN)
    if verdict is not Verdict.REFUSED:
        assert json_valid(merge(snapshot(new), stored, verdict))


@pytest.mark.req("RS-30")
@settings(deadline=None)
@given(some.integers(0, LATEST_MS))
def test_the_text_of_every_instant_is_read_back(at_ms: int) -> None:
    assert milliseconds(timestamp(at_ms)) == at_ms


@pytest.mark.req("RS-30")
@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        ("1970-01-01T00:00:00.000Z", 0),
        ("1969-12-31T23:59:59.999Z", -1),
        ("0000-01-01T00:00:00.000Z", -62167219200000),
        ("-000001-12-31T23:59:59.999Z", -62167219200001),
        ("+010000-01-01T00:00:00.000Z", 253402300800000),
        ("+275760-09-13T00:00:00.000Z", 8640000000000000),
        ("-271821-04-20T00:00:00.000Z", -8640000000000000),
        ("-271821-04-19T23:59:59.999Z", None),
        ("2100-02-29T00:00:00.000Z", None),
        ("2000-02-29T00:00:00.000Z", 951782400000),
        ("2026-04-31T00:00:00.000Z", None),
        ("2026-13-01T00:00:00.000Z", None),
    ],
)
def test_instants_at_the_edges(text: str, at_ms: int | None) -> None:
    assert milliseconds(text) == at_ms
