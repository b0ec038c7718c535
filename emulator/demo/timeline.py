"""Tells an instance's history as lines of text, in order of time. Knows no request and no process."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from emulator.demo.processes import CountedEffect
from emulator.demo.sightings import ContextSighting, Sighting, StepSighting

Moment = tuple[int, int, str]


def tell_instance(
    sighting: Sighting,
    effects: Iterable[CountedEffect],
    version_names: Mapping[str, str],
    killed_ms: int,
    ready_ms: int,
) -> list[str]:
    """The lines of one instance; the kill and the restart are among them when it lived through them."""
    own = [effect for effect in effects if effect.instance == sighting.id]
    moments: list[Moment] = []
    for context in sighting.contexts:
        moments += _context_moments(context, version_names)
    for step in sighting.steps:
        moments += _step_moments(step, own)
    for effect in own:
        word = "done" if effect.status == 200 else f"refused with {effect.status}"
        moments.append((effect.at_ms, 2, f"      effect {effect.n}: {effect.step} {word}"))
    moments += [(killed_ms, 8, "x host killed (SIGKILL)"), (ready_ms, 0, "x host answers again")]
    lines = [f"{_clock(at_ms)}  {text}" for at_ms, _, text in sorted(moments)]
    return [f"{sighting.id}", *(f"  {line}" for line in lines), f"  => {_ending(sighting)}"]


def _context_moments(context: ContextSighting, version_names: Mapping[str, str]) -> list[Moment]:
    version = version_names.get(context.version_uid, context.version_uid)
    process = "no process" if context.pid is None else f"process {context.pid}"
    moments = [(context.started_ms, 1, f"> context {context.order} on {version} in {process}")]
    if context.stopped_ms is not None:
        ending = f", {context.ending}" if context.ending else ""
        moments.append((context.stopped_ms, 7, f"< context {context.order} stopped: {_evidence(context)}{ending}"))
    return moments


def _evidence(context: ContextSighting) -> str:
    match context.stop_kind:
        case "ack":
            return "isolate aborted, kernel acknowledged"
        case "exit":
            return f"process ended with status {context.exit_status}"
        case "lost_host":
            return "process proven gone by the next host"
        case other:
            return str(other)


def _step_moments(step: StepSighting, effects: Iterable[CountedEffect]) -> list[Moment]:
    """An effect may be counted before its host has noted the step: it runs without waiting for that."""
    match step.kind:
        case "sleep":
            begun = f"    sleep {step.name} until {_clock(step.due_ms)}"
        case "wait":
            begun = f"    wait for an event: {step.name}, at the latest until {_clock(step.due_ms)}"
        case _:
            begun = f"    step {step.name}"
    begun_ms = min([step.begun_ms, *(effect.at_ms for effect in effects if effect.step == step.name)])
    moments = [(begun_ms, 1, begun)]
    if step.settled_ms is not None:
        attempts = f" at attempt {step.attempts}" if step.kind == "do" and step.attempts > 1 else ""
        result = "" if step.result is None else f" {json.dumps(step.result)}"
        moments.append((step.settled_ms, 3, f"    {step.name} {step.state}{attempts}{result}"))
    return moments


def _ending(sighting: Sighting) -> str:
    if sighting.status == "complete":
        return f"complete {json.dumps(sighting.output)}"
    return f"{sighting.status} {json.dumps(sighting.error)}" if sighting.error else sighting.status


def _clock(at_ms: int | None) -> str:
    if at_ms is None:
        return "?"
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%H:%M:%S}.{at_ms % 1000:03d}"
