"""The pure parts: transition table, retry policies, canonical documents, frames."""

import json
from itertools import product

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.runstore.snapshot import RunStatus
from emulator.workflow.canonical import NotCanonical, scan
from emulator.workflow.documents import DocumentRefused, DocumentTooLarge, check_document
from emulator.workflow.frames import Begin, ForgedFrame, Threw, decode, encode_reply
from emulator.workflow.names import is_name, storable_message
from emulator.workflow.retry import PolicyRefused, parse_policy
from emulator.workflow.states import TABLE, Event, IllegalTransition, State, after, leaving, stored

TERMINAL = {State.COMPLETE, State.ERRORED, State.TERMINATED}


@pytest.mark.req("DW-12", "DW-39")
@pytest.mark.parametrize(("state", "event"), list(product(State, Event)))
def test_every_pair_of_state_and_event_is_in_the_table_or_raises(state: State, event: Event) -> None:
    if (state, event) not in TABLE:
        with pytest.raises(IllegalTransition):
            after(state, event)
        return
    target = after(state, event)
    if state in TERMINAL:
        assert target is state
    if state is State.RUNNING:
        assert target is State.STOPPING, "running code is stopped before anything else is shown"


def test_what_a_claim_may_take_is_what_is_parked() -> None:
    assert leaving(Event.DUE) == (RunStatus.SLEEPING, RunStatus.WAITING)
    assert leaving(Event.CLAIM) == (RunStatus.PENDING,)
    assert stored(State.STOPPING) is RunStatus.RUNNING


@pytest.mark.req("DW-34")
@pytest.mark.parametrize(
    ("policy", "delays"),
    [
        (None, [None]),
        ('{"maxAttempts":1}', [None]),
        ('{"maxAttempts":3}', [0, 0, None]),
        ('{"maxAttempts":4,"initialDelaySeconds":7}', [7, 7, 7, None]),
        ('{"maxAttempts":4,"initialDelaySeconds":9,"maxDelaySeconds":5}', [5, 5, 5, None]),
        (
            '{"backoff":"exponential","initialDelaySeconds":3,"maxAttempts":5,"maxDelaySeconds":20}',
            [3, 6, 12, 20, None],
        ),
        ('{"backoff":"exponential","initialDelaySeconds":1,"maxAttempts":100}', [1, 2, 4, 8]),
    ],
)
def test_the_delay_follows_the_policy(policy: str | None, delays: list[int | None]) -> None:
    found = parse_policy(policy)
    assert [found.delay_after_s(attempt + 1) for attempt in range(len(delays))] == delays
    assert found.delay_after_s(99) in (None, 43200)


@pytest.mark.req("DW-34")
@pytest.mark.parametrize(
    "policy",
    [
        "{}",
        "[]",
        "null",
        "x",
        '{"maxAttempts":0}',
        '{"maxAttempts":101}',
        '{"maxAttempts":1.5}',
        '{"maxAttempts":true}',
        '{"maxAttempts":"3"}',
        '{"maxAttempts":1,"initialDelaySeconds":-1}',
        '{"maxAttempts":1,"initialDelaySeconds":43201}',
        '{"maxAttempts":1,"maxDelaySeconds":null}',
        '{"maxAttempts":1,"backoff":"linear"}',
        '{"maxAttempts":1,"backoff":[]}',
        '{"maxAttempts":1,"other":1}',
    ],
)
def test_anything_else_is_no_policy(policy: str) -> None:
    """B07"""
    with pytest.raises(PolicyRefused):
        parse_policy(policy)


_SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
_TEXTS = st.text(st.characters(codec="utf-8"))
_VALUES = st.recursive(
    _SCALARS | _TEXTS, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(_TEXTS, inner, max_size=5)
)


@pytest.mark.req("DW-14")
@settings(max_examples=30, deadline=None)
@given(st.dictionaries(_TEXTS, _VALUES, max_size=5))
def test_what_rfc_8785_gives_is_accepted(value: dict[str, object]) -> None:
    check_document(rfc8785.dumps(value).decode())  # type: ignore[arg-type]


@pytest.mark.req("DW-14")
@settings(max_examples=30, deadline=None)
@given(st.dictionaries(_TEXTS, _VALUES, max_size=5))
def test_another_spelling_is_accepted_only_if_it_is_the_same_text(value: dict[str, object]) -> None:
    canonical = rfc8785.dumps(value).decode()  # type: ignore[arg-type]
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, separators=(",", ":"))):
        if text == canonical:
            check_document(text)
        else:
            with pytest.raises(DocumentRefused):
                check_document(text)


@pytest.mark.req("DW-14")
@settings(max_examples=30, deadline=None)
@given(_VALUES)
def test_the_scanner_alone_agrees_with_rfc_8785(value: object) -> None:
    canonical = rfc8785.dumps(value).decode()  # type: ignore[arg-type]
    scan(canonical, 1024)
    with pytest.raises(NotCanonical):
        scan(canonical + " ", 1024)


@pytest.mark.req("DW-14")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "1",
        "{",
        '{"a":1}x',
        '{"a":1,}',
        '{"a":[1,]}',
        '{"a":-0}',
        '{"a":1.0}',
        '{"a":1e2}',
        '{"a":1e400}',
        '{"a":01}',
        '{"a":NaN}',
        '{"a":Infinity}',
        '{"a":9007199254740993}',
        '{"a":1,"a":1}',
        '{"b":1,"a":1}',
        '{"\ufffd":1,"\U0001f600":1}',
        '{"a":"\\u0041"}',
        '{"a":"\\/"}',
        '{"a":"\\u001F"}',
        '{"a":"\\u000a"}',
        '{"a":"\n"}',
        '{"a":"\ud800"}',
        '{"a":"\\ud800"}',
        "{'a':1}",
        '{"a":' + "[" * 20000,
        "{" + ",".join(f'"{n:04}":0' for n in range(1025)) + "}",
        '{"a":{' + ",".join(f'"{n:04}":0.5' for n in range(1025)) + "}}",
    ],
)
def test_text_that_is_not_canonical_is_refused(text: str) -> None:
    with pytest.raises(DocumentRefused):
        check_document(text)


@pytest.mark.req("DW-14")
@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"\U0001f600":1,"\ufffd":1}',
        '{"e\u0301":1,"\xe9":2}',
        '{"a":1e+21,"b":1e-7,"c":0.1,"d":9007199254740992,"e":"\\u001f\\b\x7f\u2028"}',
        '{"a":' + "[" * 20000 + "]" * 20000 + "}",
        "{" + ",".join(f'"{n:04}":0' for n in range(1024)) + "}",
    ],
)
def test_canonical_text_of_any_depth_is_accepted(text: str) -> None:
    check_document(text)


@pytest.mark.req("DW-15")
def test_the_limit_counts_bytes_of_canonical_text() -> None:
    check_document('{"a":"' + "\u20ac" * 349_522 + "xx" + '"}')
    with pytest.raises(DocumentTooLarge):
        check_document('{"a":"' + "\u20ac" * 349_522 + "xxx" + '"}')


@pytest.mark.req("DW-11", "DW-30")
def test_a_name_counts_scalar_values() -> None:
    assert is_name("\U0001f600" * 256)
    assert not is_name("\U0001f600" * 257)
    assert not is_name("\ude00")
    assert not is_name("")
    assert not is_name(5)


def test_a_message_is_stored_without_lone_surrogates_and_cut() -> None:
    assert storable_message("a\ud800b\U0001f600") == "a\ufffdb\U0001f600"
    assert len(storable_message("x" * 5000)) == 2048


def test_frames_are_decoded_by_position() -> None:
    assert decode('["begin",0,"a",1,"{\\"maxAttempts\\":2}"]') == Begin(0, "a", 1, '{"maxAttempts":2}')
    assert decode('["threw","m",null]') == Threw("m", None)
    assert json.loads(encode_reply(3, "done", '{"a":1}', 5)) == ["reply", 3, "done", '{"a":1}', 5]


@pytest.mark.parametrize(
    "text", ["{}", "[1]", '["limit",1]', '["wait",1,"a","t",1.5]', "[" * 100_000, '["done",0,"a",1,null]']
)
def test_anything_else_is_forged(text: str) -> None:
    with pytest.raises(ForgedFrame):
        decode(text)
