"""What the demo promises about effects, and how it tells an instance's life."""

from dataclasses import replace

import pytest

from emulator.demo.processes import CountedEffect
from emulator.demo.sightings import ContextSighting, Sighting, StepSighting
from emulator.demo.timeline import tell_instance
from emulator.demo.verdict import judge

KILLED_MS, READY_MS = 5_000, 6_000
SHIP = StepSighting("ship", "do", "succeeded", 1, 1_000, 1_500, None, {"parcel": 1})
CONTEXT = ContextSighting(1, "version-1", 900, 77, "ack", None, 1_600, None)
SIGHTING = Sighting("order", "complete", {"outcome": "shipped"}, None, (SHIP,), (CONTEXT,), 0)
DONE = CountedEffect(1, 1_200, "order", "ship", 200, False)


@pytest.mark.req("DW-32", "DW-34")
@pytest.mark.parametrize(
    ("settled_ms", "effects", "faults", "notes"),
    [
        (1_500, [DONE], 0, 0),
        (1_500, [replace(DONE, status=503), DONE], 0, 0),
        (1_500, [], 1, 0),
        (1_500, [DONE, replace(DONE, at_ms=1_300)], 1, 0),
        (6_500, [replace(DONE, at_ms=4_990), replace(DONE, at_ms=6_300)], 0, 1),
        (6_500, [replace(DONE, at_ms=6_200), replace(DONE, at_ms=6_300)], 1, 0),
        (6_500, [replace(DONE, at_ms=4_990)] * 3, 1, 0),
    ],
)
def test_a_completed_effect_is_done_once_save_the_one_the_kill_interrupted(
    settled_ms: int, effects: list[CountedEffect], faults: int, notes: int
) -> None:
    sighting = replace(SIGHTING, steps=(replace(SHIP, settled_ms=settled_ms),))
    verdict = judge([sighting], effects, KILLED_MS)
    assert (len(verdict.faults), len(verdict.notes)) == (faults, notes)


def test_a_step_is_told_before_its_effect_even_when_the_host_noted_it_later() -> None:
    early = replace(DONE, at_ms=990)
    lines = tell_instance(SIGHTING, [early], {}, KILLED_MS, READY_MS)
    assert [line.split("  ")[-1].strip() for line in lines[2:4]] == ["step ship", "effect 1: ship done"]


def test_an_instance_that_is_not_complete_is_a_fault() -> None:
    verdict = judge([replace(SIGHTING, status="errored", error={"reason": "run_threw"})], [DONE], KILLED_MS)
    assert verdict.faults == ("order is errored, not complete: {'reason': 'run_threw'}",)


def test_the_timeline_names_context_version_steps_effects_evidence_and_output() -> None:
    lines = tell_instance(SIGHTING, [DONE], {"version-1": "v1"}, KILLED_MS, READY_MS)
    assert lines == [
        "order",
        "  00:00:00.900  > context 1 on v1 in process 77",
        "  00:00:01.000      step ship",
        "  00:00:01.200        effect 1: ship done",
        '  00:00:01.500      ship succeeded {"parcel": 1}',
        "  00:00:01.600  < context 1 stopped: isolate aborted, kernel acknowledged",
        "  00:00:05.000  x host killed (SIGKILL)",
        "  00:00:06.000  x host answers again",
        '  => complete {"outcome": "shipped"}',
    ]
