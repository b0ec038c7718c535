"""The run store as a sequential machine, and a check that a history of several clients is one of its runs.

A history is linearizable when every operation can be placed at one instant between its call and its answer so that
the machine gives the same answers in that order. The operations on one row are independent of those on others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from emulator.runstore.rules import Verdict, is_disputed, is_settled, judge_write, lifecycle_of, merge, revision, scalar
from emulator.runstore.texts import child, with_members

Kind: TypeAlias = Literal["admit", "touch", "patch", "replace", "persist", "read", "delete"]
State: TypeAlias = tuple[str, str] | None
"""Snapshot and updated_at of the row, or no row. Every text of a history is written without white space."""


@dataclass(frozen=True, slots=True)
class Event:
    """One operation of one client, with the instants around it in nanoseconds of one clock.

    `texts` are: admit, persist (snapshot, updated_at); touch (updated_at); patch (status, revision, lifecycle,
    new lifecycle, updated_at); replace (snapshot, updated_at, new snapshot, new updated_at).
    """

    client: int
    row: int
    kind: Kind
    texts: tuple[str, ...]
    answer: str
    called_ns: int
    answered_ns: int


def step(state: State, event: Event) -> tuple[str, State]:
    """The answer the machine gives, and the row afterwards."""
    match event.kind:
        case "read":
            return ("none", state) if state is None else ("\n".join(state), state)
        case "delete":
            return "done", None
        case "admit":
            return ("done", event.texts) if state is None else ("not admitted", state)  # type: ignore[return-value]
        case "touch":
            return _touch(state, *event.texts)
        case "patch":
            return _patch(state, *event.texts)
        case "replace":
            snapshot, updated_at, new, new_at = event.texts
            return ("true", (new, new_at)) if state == (snapshot, updated_at) else ("false", state)
        case "persist":
            return _persist(state, *event.texts)


def _touch(state: State, now: str) -> tuple[str, State]:
    if state is None:
        return "absent", None
    return ("settled", state) if is_settled(lifecycle_of(state[0])) else ("live", (state[0], now))


def _patch(state: State, status: str, expected: str, lifecycle: str, new: str, now: str) -> tuple[str, State]:
    if state is None:
        return "false", None
    stored = lifecycle_of(state[0])
    is_met = scalar(child(state[0], "status")) == status and revision(stored) == int(expected) and stored == lifecycle
    if not is_met or is_settled(stored) or is_disputed(stored):
        return "false", state
    return "true", (with_members(state[0], {"lifecycle": new, "timestamp": "1"}), now)


def _persist(state: State, snapshot: str, now: str) -> tuple[str, State]:
    if state is None:
        return "done", (snapshot, now)
    stored = lifecycle_of(state[0])
    verdict = judge_write(stored, lifecycle_of(snapshot))
    if verdict is Verdict.REFUSED:
        return "settled", state
    return "done", (merge(snapshot, stored, verdict), now)


class Unexplained(AssertionError):
    """No order of the operations gives their answers; `str()` says where the longest try ends."""


_Place: TypeAlias = tuple[tuple[int, ...], State]


def explain(events: Sequence[Event]) -> list[tuple[Event, State]]:
    """The operations on one row in an order that gives their answers, each with the row after it.

    Raises `Unexplained` when the history is not linearizable.
    """
    lanes = [[e for e in events if e.client == client] for client in sorted({e.client for e in events})]
    start: _Place = (tuple(0 for _ in lanes), None)
    came_from: dict[_Place, tuple[_Place, Event]] = {}
    open_ends, furthest = [start], start
    while open_ends:
        here = open_ends.pop()
        furthest = max(furthest, here, key=lambda place: sum(place[0]))
        nexts = [lane[place] for lane, place in zip(lanes, here[0], strict=True) if place < len(lane)]
        if not nexts:
            return _way_to(here, came_from)
        for found, event in _moves(lanes, here, min(event.answered_ns for event in nexts)):
            if found not in came_from:
                came_from[found] = (here, event)
                open_ends.append(found)
    places, state = furthest
    stuck = [lane[place] for lane, place in zip(lanes, places, strict=True) if place < len(lane)]
    raise Unexplained(f"after {sum(places)} operations, in state {state}, none of these fits: {stuck}")


def _moves(lanes: list[list[Event]], here: _Place, earliest_ns: int) -> list[tuple[_Place, Event]]:
    """What may come next: called before any other that is left was answered, and answered as the machine would."""
    places, state = here
    moves: list[tuple[_Place, Event]] = []
    for number, (lane, place) in enumerate(zip(lanes, places, strict=True)):
        if place == len(lane) or lane[place].called_ns > earliest_ns:
            continue
        answer, after = step(state, lane[place])
        if answer == lane[place].answer:
            moves.append((((*places[:number], place + 1, *places[number + 1 :]), after), lane[place]))
    return moves


def _way_to(end: _Place, came_from: Mapping[_Place, tuple[_Place, Event]]) -> list[tuple[Event, State]]:
    way: list[tuple[Event, State]] = []
    while end in came_from:
        before, event = came_from[end]
        way.append((event, end[1]))
        end = before
    return way[::-1]


def reopenings(way: Sequence[tuple[Event, State]]) -> list[Event]:
    """The operations that left a settled row unsettled, other than a replacement, which is outside the guard."""
    found: list[Event] = []
    before: State = None
    for event, after in way:
        was_settled = before is not None and is_settled(lifecycle_of(before[0]))
        if was_settled and after is not None and not is_settled(lifecycle_of(after[0])) and event.kind != "replace":
            found.append(event)
        before = after
    return found
