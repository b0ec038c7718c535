"""What an isolate is started with is the same JSON however many parts it is made in."""

import json

import pytest

from emulator.contexts import ContextStart, StepRecord, VersionRecord
from emulator.runtime.context_texts import PART_CHARACTERS, start_parts
from emulator.runtime.log_tags import LogTags

VERSION = VersionRecord("v", "w", "0" * 64, {}, (), ("fetch",), ("Flow",))
LONG = '{"s":"\\u0000\\\\\\"é😀\n\u2028"}' * 12_000


def start_of(params: str | None, *steps: StepRecord) -> ContextStart:
    return ContextStart("c", VERSION, "Flow", 'i"1', params, steps, 7)


@pytest.mark.req("DW-35")
@pytest.mark.parametrize(
    ("params", "steps", "is_in_parts"),
    [
        (None, [], False),
        ("{}", [StepRecord("a", "succeeded", None), StepRecord("é", "failed", 'no "x"')], False),
        (LONG, [StepRecord("a", "succeeded", LONG), StepRecord("b", "large", None)], True),
        (None, [StepRecord(f"s{number}", "succeeded", "x" * 1000) for number in range(1000)], True),
    ],
)
def test_a_start_is_the_same_in_parts_none_of_which_is_long(
    params: str | None, steps: list[StepRecord], is_in_parts: bool
) -> None:
    start, tags = start_of(params, *steps), LogTags()
    parts = list(start_parts(start, tags))
    told = [[step.name, step.state, step.text] for step in steps]
    *found, tag = json.loads("".join(parts))
    assert found == ["Flow", 'i"1', params, 7, told, "c"]
    assert tag == tags.of("w", "v", 'i"1', "c")
    assert max(map(len, parts)) < 3 * PART_CHARACTERS
    assert (len(parts) > 1) is is_in_parts
