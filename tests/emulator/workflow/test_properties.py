"""Random programs, events, kills and re-weightings come to what the pure model of the contract says, every time."""

import asyncio
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emulator.workflow import InstanceRefused
from host.model.time import ControlledClock, timestamp
from tests.emulator.workflow.hosts import START_MS, WORKFLOW, Host, boot
from tests.emulator.workflow.model import Do, Model, Policy, Program, Sleep, Wait
from tests.emulator.workflow.programs import (
    Action,
    Advance,
    Interpreter,
    Reweigh,
    Send,
    Terminate,
    actions,
    programs,
)

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of hosts that vanished

SOME_EXAMPLES = 12
MANY_EXAMPLES = 1000
PROGRAMS_EACH = 10

_cases = (
    st.lists(programs, min_size=PROGRAMS_EACH, max_size=PROGRAMS_EACH),
    st.lists(actions, min_size=1, max_size=10),
    st.one_of(st.none(), st.integers(0, 200)),
)
_quiet = {"deadline": None, "database": None, "suppress_health_check": list(HealthCheck)}


class World:
    """A host that is killed and booted again on one file, beside a model of each instance."""

    def __init__(self, folder: Path, programs: Sequence[Program]) -> None:
        self._file = folder / "emulator.sqlite"
        self._clock = ControlledClock.frozen(START_MS)
        self._interpreter = Interpreter(tuple(programs), START_MS)
        self._programs = programs
        self._models: list[Model] = []
        self._versions: tuple[str, ...] = ("v1",)
        self._boots = 0
        self._kills = 0
        self._sent = 0
        self._host: Host | None = None

    @property
    def host(self) -> Host:
        assert self._host is not None
        return self._host

    async def boot(self) -> None:
        prefix = f"b{self._boots}-"
        self._boots += 1
        self._host = await boot(self._file, self._clock, prefix=prefix, Flow=self._interpreter.run)
        await self.host.deploy(*self._versions)

    async def begin(self, kill_after: int | None) -> None:
        await self.boot()
        await asyncio.gather(*(self.host.create(f"i{n}", {"program": n}) for n in range(len(self._programs))))
        self._models = [Model(program, START_MS) for program in self._programs]
        await self._rest(kill_after)

    async def _rest(self, kill_after: int | None) -> None:
        """Let everything come to rest; on the way, after some turns of the event loop, kill the host."""
        if kill_after is not None:
            for _ in range(kill_after):
                await asyncio.sleep(0)
            self._kills += 1
            await self.host.vanish()
            await self.boot()
        await self.host.idle()

    async def act(self, action: Action) -> None:
        match action:
            case Advance():
                await self._advance(action)
            case Send():
                await self._send(action)
            case Terminate():
                number = action.instance % len(self._models)
                refused = await _refusal(self.host.terminate(f"i{number}"))
                assert refused == self._models[number].terminate()
            case Reweigh():
                self._versions = action.versions
                await self.host.deploy(*self._versions)
        await self._rest(None)

    async def _advance(self, action: Advance) -> None:
        until_ms = self._clock.now_ms() + action.seconds * 1000
        next_ms = await self.host.engine.next_due_ms()
        if action.kill_after is not None and next_ms is not None and next_ms <= until_ms:
            self._clock.move_to(max(next_ms, self._clock.now_ms()))
            await self._rest(action.kill_after)
        if (rest_ms := until_ms - self._clock.now_ms()) > 0:
            await self.host.advance(rest_ms / 1000)
        for model in self._models:
            model.advance(action.seconds)

    async def _send(self, action: Send) -> None:
        number = action.instance % len(self._models)
        self._sent += 1
        refused = await _refusal(self.host.send(action.type, {"n": self._sent}, f"i{number}"))
        assert refused == self._models[number].send(action.type, {"n": self._sent})
        await self._rest(action.kill_after)

    async def compare(self) -> None:
        for number, model in enumerate(self._models):
            found = await self.host.engine.inspection.history(WORKFLOW, f"i{number}")
            if model.is_gone:
                assert found is None
                continue
            assert found is not None
            assert (found.instance.status, found.reason or "") == (model.status, model.reason)
            assert (None if found.output is None else json.loads(found.output)) == model.output
            assert [
                (step.name, step.kind, step.state, [a.outcome for a in step.attempts], step.settled_at)
                for step in found.steps
            ] == [
                (name, r.kind, r.state, r.outcomes, None if r.settled_ms is None else timestamp(r.settled_ms))
                for name, r in model.steps.items()
            ]
            assert [event.type for event in found.events] == [event_type for event_type, _ in model.events]
            assert all(context.stop is not None for context in found.contexts)
            self._compare_effects(number, model)

    def _compare_effects(self, number: int, model: Model) -> None:
        """At most one interrupted effect a kill and one a death ran more often than there are attempts."""
        deaths = {op.name: op.deaths for op in reversed(model.program.ops) if isinstance(op, Do)}
        extra = 0
        for name, record in model.steps.items():
            ran = self._interpreter.runs[number, name]
            assert ran >= len(record.outcomes)
            extra += max(0, ran - len(record.outcomes) - deaths.get(name, 0))
        assert extra <= self._kills

    async def close(self) -> None:
        await self.host.close()


async def _refusal(call: "asyncio.Future[None] | object") -> object:
    try:
        await call  # type: ignore[misc]
    except InstanceRefused as refused:
        return refused.name
    return None


async def live(programs: Sequence[Program], history: Sequence[Action], kill_after: int | None) -> None:
    """One world from its creation to its end, compared with the models after each action."""
    with tempfile.TemporaryDirectory(dir=_quick_place()) as folder:
        world = World(Path(folder), programs)
        await world.begin(kill_after)
        await world.compare()
        for action in history:
            await world.act(action)
            await world.compare()
        await world.close()


def _quick_place() -> str | None:
    """Memory where there is such a place: the kills are not of the machine."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


@pytest.mark.req("DW-23", "DW-32", "DW-33", "DW-34", "DW-35", "DW-36", "DW-37", "DW-38", "DW-40")
@given(*_cases)
@settings(max_examples=SOME_EXAMPLES, derandomize=True, **_quiet)  # type: ignore[arg-type]
def test_some_random_programs_come_to_what_the_model_says(
    programs: list[Program], history: list[Action], kill_after: int | None
) -> None:
    asyncio.run(live(programs, history, kill_after))


@pytest.mark.long
@pytest.mark.req("DW-23", "DW-32", "DW-33", "DW-34", "DW-35", "DW-36", "DW-37", "DW-38", "DW-40")
@given(*_cases)
@settings(max_examples=MANY_EXAMPLES, **_quiet)  # type: ignore[arg-type]
def test_ten_thousand_random_programs_come_to_what_the_model_says(
    programs: list[Program], history: list[Action], kill_after: int | None
) -> None:
    asyncio.run(live(programs, history, kill_after))


def test_the_model_itself_is_right_about_what_can_be_told_by_hand() -> None:
    program = Program(
        (Do("a", 31, Policy(3, 30, is_exponential=True)), Sleep("b", 10), Wait("c", "x", 5), Wait("d", "x", 5))
    )
    model = Model(program, 0)
    assert (model.status, model.steps["a"].outcomes) == ("sleeping", ["failed"])
    model.advance(90)
    assert (model.steps["a"].outcomes, model.steps["a"].settled_ms) == (["failed", "failed", "succeeded"], 90_000)
    model.send("x", 1)
    model.advance(10)
    assert (model.steps["c"].result, model.status) == (1, "waiting")
    model.advance(5)
    assert (model.status, model.output) == ("complete", {"given": [{"of": "a"}, None, 1, {"caught": "timeout"}]})
