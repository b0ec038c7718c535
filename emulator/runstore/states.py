"""What every operation does to a row in every state: the rules of the store as one table. Pure.

The store does not run on it, its SQL decides; a test walks every pair on each driver, and the diagram of the docs is
drawn from it.
"""

from collections.abc import Mapping
from enum import StrEnum


class RowState(StrEnum):
    """How a row stands; `unparsed` is one that SQLite cannot parse (RS-62)."""

    ABSENT = "absent"
    PENDING = "pending"
    RUNNING = "running"
    SETTLED = "settled"
    UNPARSED = "unparsed"
    UNPARSED_SETTLED = "unparsed_settled"


class Operation(StrEnum):
    """An operation with what decides its result.

    Patches and replacements expect the row as it stands; a replacement is unsettled. `write` carries the stored
    revision, `write_end` a later one with the settled row's own markers; `.._deep` is one that SQLite cannot parse;
    `end_start` expects the pending row, with evidence that its leg stopped.
    """

    ADMIT = "admit"
    TOUCH = "touch"
    PATCH = "patch"
    WRITE = "write"
    WRITE_END = "write_end"
    WRITE_DEEP = "write_deep"
    REPLACE = "replace"
    REPLACE_DEEP = "replace_deep"
    END_START = "end_start"


class Answer(StrEnum):
    """What the caller is told."""

    DONE = "done"
    MISSED = "false"
    LIVE = "live"
    SETTLED = "settled"
    ABSENT = "absent"
    PROGRESSED = "progressed"
    CONFLICT = "conflict"
    NOT_ADMITTED = "RunNotAdmittedError"
    SETTLED_CONFLICT = "RunSettledConflictError"
    NOT_STORABLE = "RunStateNotStorableError"


def _same(state: RowState, **answers: Answer) -> dict[Operation, tuple[Answer, RowState]]:
    return {Operation(name): (answer, state) for name, answer in answers.items()}


_EXISTS = {"admit": Answer.NOT_ADMITTED}
_TOO_DEEP = {"write_deep": Answer.NOT_STORABLE, "replace_deep": Answer.NOT_STORABLE}

TABLE: Mapping[RowState, Mapping[Operation, tuple[Answer, RowState]]] = {
    RowState.ABSENT: {
        **_same(RowState.ABSENT, touch=Answer.ABSENT, patch=Answer.MISSED, replace=Answer.MISSED),
        **_same(RowState.ABSENT, replace_deep=Answer.MISSED, write_deep=Answer.NOT_STORABLE, end_start=Answer.CONFLICT),
        Operation.ADMIT: (Answer.DONE, RowState.PENDING),
        Operation.WRITE: (Answer.DONE, RowState.RUNNING),
        Operation.WRITE_END: (Answer.DONE, RowState.SETTLED),
    },
    RowState.PENDING: {
        **_same(RowState.PENDING, touch=Answer.LIVE, patch=Answer.DONE, **_EXISTS, **_TOO_DEEP),
        Operation.WRITE: (Answer.DONE, RowState.RUNNING),
        Operation.WRITE_END: (Answer.DONE, RowState.SETTLED),
        Operation.REPLACE: (Answer.DONE, RowState.RUNNING),
        Operation.END_START: (Answer.DONE, RowState.SETTLED),
    },
    RowState.RUNNING: {
        **_same(RowState.RUNNING, touch=Answer.LIVE, patch=Answer.DONE, **_EXISTS, **_TOO_DEEP),
        **_same(RowState.RUNNING, write=Answer.DONE, replace=Answer.DONE, end_start=Answer.PROGRESSED),
        Operation.WRITE_END: (Answer.DONE, RowState.SETTLED),
    },
    RowState.SETTLED: {
        **_same(RowState.SETTLED, touch=Answer.SETTLED, patch=Answer.MISSED, **_EXISTS, **_TOO_DEEP),
        **_same(RowState.SETTLED, write=Answer.SETTLED_CONFLICT, write_end=Answer.DONE, end_start=Answer.PROGRESSED),
        Operation.REPLACE: (Answer.DONE, RowState.RUNNING),
    },
    RowState.UNPARSED: {
        **_same(RowState.UNPARSED, touch=Answer.LIVE, patch=Answer.MISSED, **_EXISTS),
        **_same(RowState.UNPARSED, write_deep=Answer.DONE, replace_deep=Answer.DONE, end_start=Answer.PROGRESSED),
        Operation.WRITE: (Answer.DONE, RowState.RUNNING),
        Operation.WRITE_END: (Answer.DONE, RowState.SETTLED),
        Operation.REPLACE: (Answer.DONE, RowState.RUNNING),
    },
    RowState.UNPARSED_SETTLED: {
        **_same(RowState.UNPARSED_SETTLED, touch=Answer.SETTLED, patch=Answer.MISSED, **_EXISTS),
        **_same(RowState.UNPARSED_SETTLED, write=Answer.SETTLED_CONFLICT, write_deep=Answer.SETTLED_CONFLICT),
        **_same(RowState.UNPARSED_SETTLED, end_start=Answer.PROGRESSED),
        Operation.WRITE_END: (Answer.DONE, RowState.SETTLED),
        Operation.REPLACE: (Answer.DONE, RowState.RUNNING),
        Operation.REPLACE_DEEP: (Answer.DONE, RowState.UNPARSED),
    },
}


def draw_diagram() -> str:
    """The moves between states, as a Mermaid diagram."""
    lines = ["stateDiagram-v2", "    [*] --> absent"]
    for state, row in TABLE.items():
        moves: dict[RowState, list[str]] = {}
        for operation, (_, after) in row.items():
            if after is not state:
                moves.setdefault(after, []).append(operation.value)
        lines.extend(f"    {state} --> {after}: {', '.join(names)}" for after, names in moves.items())
    return "\n".join(lines) + "\n"


def draw_table() -> str:
    """Every answer, as a Markdown table."""
    lines = [f"| row | {' | '.join(Operation)} |", "| --- " * (len(Operation) + 1) + "|"]
    for state, row in TABLE.items():
        cells = (row[operation][0].value for operation in Operation)
        lines.append(f"| {state} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
