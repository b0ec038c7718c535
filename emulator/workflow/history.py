"""The steps of one instance as its running context may know them, and what each frame means against them. Pure.

Owns the rules of overlap, kinds, the name limit and attempts (DW-31 to DW-34). It is changed only once a write is
durable, save for `current`, which is taken as soon as a step starts.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias

from emulator.workflow.frames import Begin, Done, Failed, ForgedFrame, Need, Sleep, Wait
from emulator.workflow.retry import parse_policy

MOST_STEPS = 1024


class StepKind(StrEnum):
    DO = "do"
    SLEEP = "sleep"
    WAIT = "wait"


class StepState(StrEnum):
    PENDING = "pending"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True)
class Step:
    """One name. `settings`: the policy text of a `do`; `due_at_ms`: the deadline of a sleep, wait or retry."""

    name: str
    ord: int
    kind: StepKind
    state: StepState
    attempt: int = 1
    settings: str | None = None
    due_at_ms: int | None = None
    is_large: bool = False

    def become(self, state: StepState) -> "Step":
        """The same step with its outcome."""
        return replace(self, state=state)


@dataclass(frozen=True, slots=True)
class NewStep:
    """The name is new: the step is to be recorded."""

    step: Step


@dataclass(frozen=True, slots=True)
class KnownStep:
    """The name is pending from an earlier context: its first settings stand (DW-32)."""

    step: Step


@dataclass(frozen=True, slots=True)
class Overlap:
    """The run ends as `step_definition_mismatch`."""

    detail: str


@dataclass(frozen=True, slots=True)
class TooManySteps:
    """The run ends as `step_limit_exceeded`."""


Started: TypeAlias = NewStep | KnownStep | Overlap | TooManySteps


class History:
    """The steps by name, and the one that is in progress in this context."""

    def __init__(self, steps: Iterable[Step]) -> None:
        self._steps = {step.name: step for step in steps}
        self.current: Step | None = None

    def start_do(self, frame: Begin) -> Started:
        """Raises `ForgedFrame` for a settled name or another attempt than the next one."""
        new = Step(frame.name, self._next_ord, StepKind.DO, StepState.PENDING, settings=frame.policy_text)
        started = self._start(new)
        if isinstance(started, NewStep | KnownStep) and started.step.attempt != frame.attempt:
            raise ForgedFrame("begin of another attempt than the next one")
        return started

    def start_sleep(self, frame: Sleep, now_ms: int) -> Started:
        """Raises `ForgedFrame` for a settled name."""
        due_at_ms = now_ms + frame.seconds * 1000
        return self._start(
            Step(
                frame.name,
                self._next_ord,
                StepKind.SLEEP,
                StepState.PENDING,
                settings=f'{{"seconds":{frame.seconds}}}',
                due_at_ms=due_at_ms,
            )
        )

    def start_wait(self, frame: Wait, now_ms: int) -> Started:
        """Raises `ForgedFrame` for a settled name."""
        return self._start(
            Step(
                frame.name,
                self._next_ord,
                StepKind.WAIT,
                StepState.PENDING,
                settings=frame.event_type,
                due_at_ms=now_ms + frame.timeout_s * 1000,
            )
        )

    def effect_settled(self, frame: Done | Failed) -> Step:
        """The step in progress. Raises `ForgedFrame` when the frame speaks of any other or of another attempt."""
        step = self.current
        if step is None or step.kind is not StepKind.DO or step.name != frame.name or step.attempt != frame.attempt:
            raise ForgedFrame("a result of a step that is not in progress")
        return step

    def delay_after(self, step: Step) -> int | None:
        """Seconds until the next attempt of a failed one, none after the last (DW-34)."""
        return parse_policy(step.settings).delay_after_s(step.attempt)

    def settled(self, frame: Need) -> Step:
        """Raises `ForgedFrame` unless the name has an outcome, which the isolate may have been too full to keep."""
        step = self._steps.get(frame.name)
        if step is None or step.state is StepState.PENDING:
            raise ForgedFrame("need of an outcome that does not exist")
        return step

    def settle(self, step: Step) -> None:
        """The step's outcome is durable."""
        self._steps[step.name] = step
        self.current = None

    @property
    def unsettled(self) -> Step | None:
        """A step in progress, or pending from an earlier context (DW-31)."""
        if self.current is not None:
            return self.current
        return next((step for step in self._steps.values() if step.state is StepState.PENDING), None)

    def has_failed(self, name: str) -> bool:
        """Whether a `step_failed` of this name is recorded, so that the error can be genuine (DW-38)."""
        step = self._steps.get(name)
        return step is not None and step.state is StepState.FAILED

    @property
    def _next_ord(self) -> int:
        return len(self._steps) + 1

    def _start(self, new: Step) -> Started:
        if self.current is not None:
            return Overlap(f"step {new.name!r} started before step {self.current.name!r} had settled")
        known = self._steps.get(new.name)
        if known is None:
            if len(self._steps) >= MOST_STEPS:
                return TooManySteps()
            self.current = new
            return NewStep(new)
        if known.state is not StepState.PENDING:
            raise ForgedFrame("a settled step started again")
        if known.kind is not new.kind:
            return Overlap(f"step {new.name!r} is pending as {known.kind}, not {new.kind}")
        self.current = known
        return KnownStep(known)
