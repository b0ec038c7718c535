"""Judges a finished story by the histories and by what the counter counted. Prints nothing."""

from collections.abc import Iterable
from dataclasses import dataclass

from emulator.demo.processes import CountedEffect
from emulator.demo.sightings import Sighting, StepSighting


@dataclass(frozen=True, slots=True)
class Verdict:
    """`faults` are broken promises; `notes` are what the contract allows but a reader should know."""

    faults: tuple[str, ...]
    notes: tuple[str, ...]


def judge(seen: Iterable[Sighting], effects: Iterable[CountedEffect], killed_ms: int) -> Verdict:
    """Every instance complete, and the effect of every completed step done once.

    One interrupted by the kill (done before it, committed after it) may have been done twice: DW-34 says so.
    """
    faults: list[str] = []
    notes: list[str] = []
    done = [effect for effect in effects if effect.status == 200]
    for sighting in seen:
        if sighting.status != "complete":
            faults.append(f"{sighting.id} is {sighting.status}, not complete: {sighting.error}")
        for step in sighting.steps:
            if step.kind != "do" or step.state != "succeeded":
                continue
            times = [effect for effect in done if (effect.instance, effect.step) == (sighting.id, step.name)]
            if len(times) == 2 and _was_interrupted(step, times, killed_ms):
                notes.append(f"{sighting.id}: {step.name} was interrupted by the kill and done again, as DW-34 allows")
            elif len(times) != 1:
                faults.append(f"{sighting.id}: the effect of {step.name} was done {len(times)} times")
    return Verdict(tuple(faults), tuple(notes))


def _was_interrupted(step: StepSighting, times: list[CountedEffect], killed_ms: int) -> bool:
    return times[0].at_ms <= killed_ms and step.settled_ms is not None and step.settled_ms >= killed_ms
