"""Strict reading of JSON text and its exact writing."""

import gc
import sys
import time
from collections.abc import Callable
from types import FrameType

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


@pytest.mark.req("HA-51")
@given(st.integers(-(10**9), 10**9), st.integers(0, 9), st.sampled_from(["", "e0", "e-3", "E+2"]))
def test_a_number_is_the_same_however_it_is_spelt(digits: int, places: int, exponent: str) -> None:
    plain = f"{digits}.{'0' * places}{exponent}" if places else f"{digits}{exponent}"
    long = f"{digits}.{'0' * (places + 20)}{exponent}"
    assert canonical_text(decode(plain)) == canonical_text(decode(long))


@pytest.mark.req("HA-51")
@given(st.decimals(-(10**6), 10**6, allow_nan=False, allow_infinity=False, places=8))
def test_a_short_fraction_is_what_the_long_way_makes_of_it(number: object) -> None:
    assert canonical_text(decode(f"{number:f}")) == canonical_text(decode(f"{number:f}{'0' * 20}"))


@pytest.mark.req("HA-51")
@pytest.mark.parametrize("odd", ["0.1000000000000000055", "1e300", "[]"])
def test_long_integers_are_equal_in_every_spelling_and_company(odd: str) -> None:
    zeros = "0" * 50
    texts = [f'{{"b":[-7{zeros},{odd}],"a":1{zeros}}}', f'{{"a":1e50,"b":[-70e49,{odd}]}}']
    assert len({canonical_text(decode(text)) for text in texts}) == 1
    assert decode(text_of(decode(texts[0]))) == decode(texts[0])
    assert canonical_text(decode(f"1{zeros}1")) == f"1{zeros}1"
    assert len(canonical_text(decode("[" + "1e300," * 1000 + "1]"))) == 6003


@pytest.mark.req("HA-51")
@pytest.mark.parametrize("odd", ["1", "0.1000000000000000055", "1e300"])
def test_members_are_in_order_in_any_company(odd: str) -> None:
    text = canonical_text(decode(f'{{"\ufffd":{odd},"\U0001f600":[{{"b":1,"a":2}}]}}'))
    assert text == f'{{"\U0001f600":[{{"a":2,"b":1}}],"\ufffd":{canonical_text(decode(odd))}}}'


def calls_of_python(work: Callable[[str], object], text: str) -> int:
    """How many Python functions the work calls for the text; what runs in C does not count."""
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    gc.disable()  # hypothesis looks on
    sys.setprofile(note)
    try:
        work(text)
    finally:
        sys.setprofile(before)
        gc.enable()
    return count


@pytest.mark.req("HA-02", "HA-51")
@pytest.mark.parametrize(
    "item", ["0", '""', "[]", "0.5", "1e3", "1e30", "[" * 90 + "]" * 90, "true", '"\\u00e9"', '"' + "1" * 400 + '",0']
)
def test_many_values_cost_no_python_call_each(item: str) -> None:
    few, many = (f"[{','.join([item] * count)}]" for count in (200, 4000))
    for work in (decode, lambda text: canonical_text(decode(text)), lambda text: text_of(decode(text))):
        assert calls_of_python(work, many) == calls_of_python(work, few)


@given(JSON)
def test_what_is_written_is_read_back(value: object) -> None:
    text = text_of(value)  # type: ignore[arg-type]
    assert decode(text) == value
    assert canonical_text(decode(text)) == canonical_text(value)


def test_exactness_for_javascript() -> None:
    assert is_exact_double(2**53)
    assert not is_exact_double(2**53 + 1)
    assert is_exact_double(10**22)
