"""Frames of a running context: JSON arrays of fixed length, decoded into values, and the replies. Knows no history.

Documents travel as canonical text inside a string. Whatever an isolate sends is hostile until it is decoded here.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from emulator.workflow.names import is_name, storable_message
from emulator.workflow.retry import PolicyRefused, parse_policy

LONGEST_SLEEP_S = 31_536_000
_MOST_FRAMES = 2**53


class ForgedFrame(Exception):
    """Not a frame of ours, or one that this context cannot have sent: its runner is killed."""


@dataclass(frozen=True, slots=True)
class Begin:
    """A `do` step starts attempt `attempt`; `reply_id` 0 asks for no reply."""

    reply_id: int
    name: str
    attempt: int
    policy_text: str | None


@dataclass(frozen=True, slots=True)
class Done:
    """The effect gave a result; `document` is unchecked text, None for `undefined`."""

    reply_id: int
    name: str
    attempt: int
    document: str | None


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt failed."""

    reply_id: int
    name: str
    attempt: int
    message: str


@dataclass(frozen=True, slots=True)
class Sleep:
    reply_id: int
    name: str
    seconds: int


@dataclass(frozen=True, slots=True)
class Wait:
    reply_id: int
    name: str
    event_type: str
    timeout_s: int


@dataclass(frozen=True, slots=True)
class Need:
    """Asks for the outcome of a settled step that the isolate was not given or did not keep."""

    reply_id: int
    name: str


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The isolate saw overlapping steps or a name of another kind; it resolves nothing any more (DW-31)."""

    detail: str


@dataclass(frozen=True, slots=True)
class LimitReached:
    """The isolate was asked for one name more than 1024 (DW-33)."""


@dataclass(frozen=True, slots=True)
class Returned:
    """`run` returned; `document` is unchecked text, None for `undefined`."""

    document: str | None


@dataclass(frozen=True, slots=True)
class Threw:
    """`run` threw. `failed_step` names the step whose own host error was thrown (DW-38)."""

    message: str
    failed_step: str | None


Frame: TypeAlias = Begin | Done | Failed | Sleep | Wait | Need | Mismatch | LimitReached | Returned | Threw


def _name(value: object) -> str:
    if not is_name(value):
        raise ForgedFrame("a name is not 1 to 256 scalar values")
    assert isinstance(value, str)
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ForgedFrame("a text is missing")
    return value


def _optional(value: object) -> str | None:
    return None if value is None else _text(value)


def _integer(value: object, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ForgedFrame(f"a number is not an integer from {least} to {most}")
    return value


def _reply_id(value: object) -> int:
    return _integer(value, 1, _MOST_FRAMES)


def _begin(f: Sequence[object]) -> Begin:
    policy_text = _optional(f[4])
    try:
        parse_policy(policy_text)
    except PolicyRefused as error:
        raise ForgedFrame(str(error)) from error
    return Begin(_integer(f[1], 0, _MOST_FRAMES), _name(f[2]), _integer(f[3], 1, 100), policy_text)


def _done(f: Sequence[object]) -> Done:
    return Done(_reply_id(f[1]), _name(f[2]), _integer(f[3], 1, 100), _optional(f[4]))


def _failed(f: Sequence[object]) -> Failed:
    return Failed(_reply_id(f[1]), _name(f[2]), _integer(f[3], 1, 100), storable_message(_text(f[4])))


def _sleep(f: Sequence[object]) -> Sleep:
    return Sleep(_reply_id(f[1]), _name(f[2]), _integer(f[3], 0, LONGEST_SLEEP_S))


def _wait(f: Sequence[object]) -> Wait:
    return Wait(_reply_id(f[1]), _name(f[2]), _name(f[3]), _integer(f[4], 1, LONGEST_SLEEP_S))


def _threw(f: Sequence[object]) -> Threw:
    return Threw(storable_message(_text(f[1])), None if f[2] is None else _name(f[2]))


_DECODERS: dict[str, tuple[int, Callable[[Sequence[object]], Frame]]] = {
    "begin": (5, _begin),
    "done": (5, _done),
    "failed": (5, _failed),
    "sleep": (4, _sleep),
    "wait": (5, _wait),
    "need": (3, lambda f: Need(_reply_id(f[1]), _name(f[2]))),
    "mismatch": (2, lambda f: Mismatch(storable_message(_text(f[1])))),
    "limit": (1, lambda _: LimitReached()),
    "return": (2, lambda f: Returned(_optional(f[1]))),
    "threw": (3, _threw),
}


def decode(text: str) -> Frame:
    """Read one frame. Raises `ForgedFrame`."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ForgedFrame("not JSON") from error
    if not isinstance(found, list) or not found or not isinstance(found[0], str):
        raise ForgedFrame("not an array that begins with a verb")
    length, decoder = _DECODERS.get(found[0], (0, None))
    if decoder is None or len(found) != length:
        raise ForgedFrame("an unknown verb or another number of members")
    return decoder(found)


def encode_reply(reply_id: int, outcome: str, text: str | None, now_ms: int) -> str:
    """The answer to a frame: `outcome` is done, failed or timeout; `text` a document or a message."""
    return json.dumps(["reply", reply_id, outcome, text, now_ms], ensure_ascii=False, separators=(",", ":"))
