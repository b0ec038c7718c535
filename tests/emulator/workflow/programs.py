"""Random programs and what happens around them, for Hypothesis; and how a scripted isolate runs a program."""

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import TypeAlias

from hypothesis import strategies as st

from tests.emulator.workflow.isolates import Document, Step, StepFailed, WaitTimeout
from tests.emulator.workflow.model import Do, Op, Policy, Program, Sleep, Wait

DAY_S = 86_400
_names = st.sampled_from(["a", "b", "c", "d", "e"])
_types = st.sampled_from(["x", "y"])
_policies = st.one_of(
    st.none(),
    st.builds(
        Policy,
        st.integers(1, 4),
        st.sampled_from([0, 0, 1, 30, 43_200]),
        st.booleans(),
        st.sampled_from([0, 40, 43_200]),
    ),
)
_deaths = st.sampled_from([0, 0, 0, 0, 0, 1, 2])
_ops: st.SearchStrategy[Op] = st.one_of(
    st.builds(Do, _names, st.sampled_from([0, 0, 0, 1, 31, 5000, 100 * DAY_S]), _policies, st.booleans(), _deaths),
    st.builds(Sleep, _names, st.sampled_from([0, 1, 30, 3600, 20 * DAY_S, 365 * DAY_S])),
    st.builds(Wait, _names, _types, st.sampled_from([1, 30, 3600, 365 * DAY_S]), st.booleans()),
)
programs = st.builds(Program, st.lists(_ops, min_size=1, max_size=7).map(tuple), st.booleans())


@dataclass(frozen=True)
class Advance:
    """`kill_after` is a number of turns of the event loop at the next due instant; None for no kill."""

    seconds: int
    kill_after: int | None


@dataclass(frozen=True)
class Send:
    instance: int
    type: str
    kill_after: int | None


@dataclass(frozen=True)
class Terminate:
    instance: int


@dataclass(frozen=True)
class Reweigh:
    versions: tuple[str, ...]


Action: TypeAlias = Advance | Send | Terminate | Reweigh
_kills = st.one_of(st.none(), st.none(), st.integers(0, 60))
_seconds = st.sampled_from([1, 29, 30, 31, 1800, 3600, 43_200, DAY_S, 20 * DAY_S, 31 * DAY_S, 366 * DAY_S])
actions: st.SearchStrategy[Action] = st.one_of(
    st.builds(Advance, _seconds, _kills),
    st.builds(Send, st.integers(0, 31), _types, _kills),
    st.builds(Send, st.integers(0, 31), _types, _kills),
    st.builds(Terminate, st.integers(0, 31)),
    st.builds(Reweigh, st.sampled_from([("v1",), ("v2",), ("v1", "v2")])),
)


class Interpreter:
    """Runs programs by index; keeps, over all boots, how often effects ran and what app code was told."""

    def __init__(self, programs: tuple[Program, ...], created_ms: int) -> None:
        self._programs = programs
        self._created_ms = created_ms
        self.runs: Counter[tuple[int, str]] = Counter()
        self._told: set[tuple[int, str]] = set()

    async def run(self, params: Document, step: Step) -> Document:
        number = int((params or {})["program"])
        program = self._programs[number]
        given = [await self._caught(number, op, step) for op in program.ops]
        if program.throws:
            raise RuntimeError("thrown")
        return {"given": given}

    async def _caught(self, number: int, op: Op, step: Step) -> object:
        try:
            given = await self._op(number, op, step)
        except (StepFailed, WaitTimeout) as error:
            self._told.add((number, op.name))
            if not op.is_caught:
                raise
            return {"caught": "failed" if isinstance(error, StepFailed) else "timeout"}
        self._told.add((number, op.name))
        return given

    async def _op(self, number: int, op: Op, step: Step) -> object:
        match op:
            case Do():
                policy = None if op.policy is None else op.policy.document()
                return await step.do(op.name, lambda: self._effect(number, op, step), policy)
            case Sleep():
                await step.sleep(op.name, op.seconds)
                return None
            case Wait():
                return await step.wait(op.name, op.type, op.timeout_s)

    async def _effect(self, number: int, op: Do, step: Step) -> Document:
        assert (number, op.name) not in self._told, "a step whose outcome was told runs again"
        self.runs[number, op.name] += 1
        if self.runs[number, op.name] <= op.deaths:
            step.die()
            await asyncio.Event().wait()
        if step.now_ms < self._created_ms + op.ok_after_s * 1000:
            raise RuntimeError("too early")
        return {"of": op.name}
