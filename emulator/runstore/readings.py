"""What SQL reads in a snapshot that it can parse: the lifecycle's revision, marks, intent and disputes.

`emulator.runstore.rules` reads the same in Python; a test holds the two against each other. `text` is an SQL
expression whose value passed `json_valid`: everything here belongs behind `readable`.
"""

SETTLING_MARKERS = ("terminal", "interruptedAt", "startOutcomeUnknownAt", "stateNotStorableAt")
"""A lifecycle that carries one of them, not null, is settled."""
IDENTITY = (
    "terminal.status",
    "terminal.transitionedAt",
    "interruptedAt",
    "startOutcomeUnknownAt",
    "stateNotStorableAt",
)
"""What a write over a settled row carries unchanged (RS-60); the rest of a terminal record may still grow."""


def has(text: str, path: str) -> str:
    """Whether something other than null stands at the path."""
    return f"COALESCE(json_type({text}, '$.{path}'), 'null') <> 'null'"


def readable(text: str, condition: str) -> str:
    """The condition where SQLite can parse the text, else false; never evaluated over what it cannot parse."""
    return f"(CASE WHEN json_valid({text}) THEN ({condition}) ELSE 0 END)"


def revision(text: str) -> str:
    """The number, or NULL where there is none."""
    path = "$.lifecycle.revision"
    return f"(CASE WHEN json_type({text}, '{path}') IN ('integer', 'real') THEN {text} ->> '{path}' END)"


def is_settled(text: str) -> str:
    """RS-60: a terminal record or another settling marker."""
    return "(" + " OR ".join(has(text, f"lifecycle.{marker}") for marker in SETTLING_MARKERS) + ")"


def is_disputed(text: str) -> str:
    """Some economic operation is recorded as disputed."""
    state = "CASE type WHEN 'object' THEN value ->> '$.settlementState' END"
    return f"EXISTS (SELECT 1 FROM json_each({text}, '$.lifecycle.economicOperations') WHERE {state} = 'disputed')"


def has_same_identity(stored: str, new: str) -> str:
    """The settling markers and the terminal identity are the same text in both."""
    pairs = (f"({stored} -> '$.lifecycle.{path}') IS ({new} -> '$.lifecycle.{path}')" for path in IDENTITY)
    return "(" + " AND ".join(pairs) + ")"


def keeps_lifecycle(stored: str, new: str) -> str:
    """RS-61: the write's revision is lower or absent, unless it records a dispute over a stored intent."""
    disputes = f"{has(stored, 'lifecycle.transitionIntent')} AND {revision(new)} IS NOT NULL AND {is_disputed(new)}"
    is_behind = f"({revision(new)} IS NULL OR {revision(new)} < {revision(stored)})"
    return f"({has(stored, 'lifecycle')} AND {is_behind} AND NOT ({disputes}))"


def keeps_intent(stored: str, new: str) -> str:
    """RS-61: an equal revision without an intent, no dispute, and no deadline moved that the stored intent named."""
    named = "lifecycle.transitionIntent.expectedDeadlineAt"
    moved = f"({has(stored, named)} AND ({new} ->> '$.lifecycle.deadlineAt') IS NOT ({stored} ->> '$.{named}'))"
    return (
        f"({revision(new)} = {revision(stored)} AND {has(stored, 'lifecycle.transitionIntent')}"
        f" AND NOT {has(new, 'lifecycle.transitionIntent')} AND NOT {is_disputed(new)} AND NOT {moved})"
    )
