"""Strict reading of JSON text and its exact writing."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host.model.json import MAX_DEPTH, JsonRefused, canonical_text, decode, is_exact_double, text_of

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab\u00e9\U0001f600\ufffd"), inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.req("HA-02")
def test_the_depth_limit_is_exact_for_every_container() -> None:
    for opening, closing in (("[", "]"), ('{"a":', "}")):
        decode(opening * MAX_DEPTH + "1" + closing * MAX_DEPTH)
        with pytest.raises(JsonRefused):
            decode(opening * (MAX_DEPTH + 1) + "1" + closing * (MAX_DEPTH + 1))
    assert decode('"' + "[" * 1000 + '"') == "[" * 1000
    assert decode('["\\"[[",' + "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1) + "]") is not None


@pytest.mark.req("HA-02")
def test_a_long_number_is_refused_at_once() -> None:
    started = time.monotonic()
    for text in ("9" * 4301, "1" * 400, "-" + "9" * 310, "1." + "0" * 4301, "1e" + "9" * 4300, "1" * 1_000_000):
        with pytest.raises(JsonRefused):
            decode(text)
    assert time.monotonic() - started < 1
    assert decode("1" * 309) == int("1" * 309)


@pytest.mark.req("HA-51")
@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1.0", "1"),
        ("1e0", "1"),
        ("100e-2", "1"),
        ("-0", "0"),
        ("-0.0e5", "0"),
        ("0e99999999999999999999", "0"),
        ("1.50", "1.5"),
        ("0.1", "0.1"),
        ("1e22", "1" + "0" * 22),
        ("9007199254740993.0", "9007199254740993"),
        ("0.1000000000000000055", "1000000000000000055e-19"),
        ("1e-400", "1e-400"),
        ("-12.5e-1", "-1.25"),
    ],
)
def test_numbers_keep_their_mathematical_value(text: str, canonical: str) -> None:
    assert canonical_text(decode(text)) == canonical
    assert decode(canonical) == decode(text)


@pytest.mark.req("HA-51")
def test_members_sort_by_utf16_and_are_not_normalised() -> None:
    assert canonical_text(decode('{"\\ufffd":1,"\\ud83d\\ude00":2}')) == '{"\U0001f600":2,"\ufffd":1}'
    assert len(decode('{"\\u00e9":1,"e\\u0301":2}')) == 2  # type: ignore[arg-type]


@given(JSON)
def test_what_is_written_is_read_back(value: object) -> None:
    text = text_of(value)  # type: ignore[arg-type]
    assert decode(text) == value
    assert canonical_text(decode(text)) == canonical_text(value)


def test_exactness_for_javascript() -> None:
    assert is_exact_double(2**53)
    assert not is_exact_double(2**53 + 1)
    assert is_exact_double(10**22)
