"""Small histories, one for each kind of step and ending, that a host is killed in at every point.

A scenario says what its instance does, how a caller brings it to its end over any number of hosts, and what must be true
then whatever died on the way.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from emulator.workflow import ErrorName, InstanceRefused
from tests.emulator.workflow.bodies import Effect, never_ends
from tests.emulator.workflow.hosts import Host
from tests.emulator.workflow.isolates import Body, Document, Step, StepFailed, WaitTimeout

INSTANCE = "i"
_TURNS = 20
_LOOK_EVERY_S = 0.002


class Diary:
    """Effects as lines of a file, so that they are counted whatever dies; while it is shut none is done."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "effects"
        self._shut = folder / "shut"

    def shut(self) -> None:
        """Hold up every effect, also in hosts to come, until `open`."""
        self._shut.touch()

    def open(self) -> None:
        self._shut.unlink(missing_ok=True)

    def effect(self, name: str, fails: int = 0, result: Document = None) -> Effect:
        """An effect that is written down; its first `fails` runs fail."""

        async def run() -> Document:
            while self._shut.exists():
                await asyncio.sleep(_LOOK_EVERY_S)
            with self._path.open("a") as file:
                file.write(name + "\n")
            if self.counted()[name] <= fails:
                raise RuntimeError(f"{name} declined")
            return result

        return run

    def counted(self) -> Counter[str]:
        return Counter(self._path.read_text().split()) if self._path.exists() else Counter()


@dataclass(frozen=True)
class Scenario:
    """`steps` are name, state and attempts; `event` is sent when the instance waits, `early` during its first step."""

    body: Callable[[Diary], Body]
    status: str
    steps: tuple[tuple[str, str, int], ...]
    effects: dict[str, int] = field(default_factory=dict)
    output: Document = None
    event: Document = None
    early: Document = None
    is_terminated: bool = False


def _first(diary: Diary, rest: Callable[[Diary, Step], Awaitable[Document]]) -> Body:
    """A step that must never run again, and then what the scenario is about."""

    async def body(params: Document, step: Step) -> Document:
        await step.do("first", diary.effect("first"))
        return await rest(diary, step)

    return body


def _doing(fails: int, policy: Document) -> Callable[[Diary], Body]:
    async def rest(diary: Diary, step: Step) -> Document:
        try:
            return await step.do("pay", diary.effect("pay", fails, {"paid": 1}), policy)
        except StepFailed:
            await step.do("clean", diary.effect("clean"))
            raise

    return lambda diary: _first(diary, rest)


def _sleeping(seconds: int) -> Callable[[Diary], Body]:
    async def rest(diary: Diary, step: Step) -> Document:
        await step.sleep("nap", seconds)
        return await step.do("after", diary.effect("after"))

    return lambda diary: _first(diary, rest)


def _waiting(timeout_s: int) -> Callable[[Diary], Body]:
    async def rest(diary: Diary, step: Step) -> Document:
        try:
            return await step.wait("go", "go", timeout_s)
        except WaitTimeout:
            return {"late": 1}

    return lambda diary: _first(diary, rest)


async def _throw(diary: Diary, step: Step) -> Document:
    raise RuntimeError("thrown")


async def _overlap(diary: Diary, step: Step) -> Document:
    step.raw(["begin", 0, "outer", 1, None])
    await step.ask("sleep", "inner", 5)
    return None


async def _order(diary: Diary, step: Step) -> Document:
    await step.do("charge", diary.effect("charge", 1), {"maxAttempts": 3, "initialDelaySeconds": 30})
    paid = await step.wait("paid", "go", 2_592_000)
    await step.sleep("ship", 60)
    await step.do("mail", diary.effect("mail"))
    return paid


_DONE = ("first", "succeeded", 1)
_ONCE = {"first": 1}
_DELAYED: Document = {"maxAttempts": 3, "initialDelaySeconds": 30}
_AT_ONCE: Document = {"maxAttempts": 3}

SCENARIOS = MappingProxyType(
    {
        "do": Scenario(_doing(0, None), "complete", (_DONE, ("pay", "succeeded", 1)), {**_ONCE, "pay": 1}, {"paid": 1}),
        "do, fails": Scenario(
            _doing(9, None),
            "errored",
            (_DONE, ("pay", "failed", 1), ("clean", "succeeded", 1)),
            {**_ONCE, "pay": 1, "clean": 1},
        ),
        "do, retries after a delay": Scenario(
            _doing(2, _DELAYED), "complete", (_DONE, ("pay", "succeeded", 3)), {**_ONCE, "pay": 3}, {"paid": 1}
        ),
        "do, retries at once": Scenario(
            _doing(1, _AT_ONCE), "complete", (_DONE, ("pay", "succeeded", 2)), {**_ONCE, "pay": 2}, {"paid": 1}
        ),
        "do, all retries fail": Scenario(
            _doing(9, _DELAYED),
            "errored",
            (_DONE, ("pay", "failed", 3), ("clean", "succeeded", 1)),
            {**_ONCE, "pay": 3, "clean": 1},
        ),
        "sleep": Scenario(
            _sleeping(60),
            "complete",
            (_DONE, ("nap", "succeeded", 0), ("after", "succeeded", 1)),
            {**_ONCE, "after": 1},
        ),
        "sleep of 0": Scenario(
            _sleeping(0), "complete", (_DONE, ("nap", "succeeded", 0), ("after", "succeeded", 1)), {**_ONCE, "after": 1}
        ),
        "wait, event later": Scenario(
            _waiting(2_592_000), "complete", (_DONE, ("go", "succeeded", 0)), _ONCE, {"n": 1}, {"n": 1}
        ),
        "wait, event queued": Scenario(
            _waiting(2_592_000),
            "complete",
            (_DONE, ("go", "succeeded", 0)),
            _ONCE,
            {"n": 1},
            early={"n": 1},
        ),
        "wait, timeout": Scenario(_waiting(600), "complete", (_DONE, ("go", "timeout", 0)), _ONCE, {"late": 1}),
        "throw": Scenario(lambda diary: _first(diary, _throw), "errored", (_DONE,), _ONCE),
        "overlap": Scenario(lambda diary: _first(diary, _overlap), "errored", (_DONE, ("outer", "pending", 1)), _ONCE),
        "terminate": Scenario(lambda _: never_ends, "terminated", (("endless", "pending", 1),), is_terminated=True),
        "order": Scenario(
            lambda diary: _first(diary, _order),
            "complete",
            (
                _DONE,
                ("charge", "succeeded", 2),
                ("paid", "succeeded", 0),
                ("ship", "succeeded", 0),
                ("mail", "succeeded", 1),
            ),
            {**_ONCE, "charge": 2, "mail": 1},
            {"amount": 5},
            {"amount": 5},
        ),
    }
)


async def drive(scenario: Scenario, host: Host, folder: Path) -> None:
    """Bring the instance to its end; any of the calls may have been made by a host that died."""
    diary = Diary(folder)
    if scenario.early is not None:
        diary.shut()  # else it would depend on the machine whether the event comes before its wait
    await allow(ErrorName.INSTANCE_EXISTS, host.create(INSTANCE))
    if scenario.early is not None:
        await host.executing(contexts=0, steps=1)
        await _send_unless_there(host, scenario.early)
        diary.open()
    if scenario.is_terminated:
        if (await host.status(INSTANCE)).status != "terminated":
            await host.executing(steps=1)
        await host.terminate(INSTANCE)
    for _ in range(_TURNS):
        await host.advance(60)
        status = (await host.status(INSTANCE)).status
        if status == "waiting" and scenario.event is not None:
            await host.send("go", scenario.event, INSTANCE)
        elif status == scenario.status:
            break
    await _report(host, folder)


async def _send_unless_there(host: Host, payload: Document) -> None:
    history = await host.history(INSTANCE)
    is_served = any(step.name == "go" and step.state == "succeeded" for step in history.steps)
    if not history.events and not is_served and history.instance.status != "complete":
        await host.send("go", payload, INSTANCE)


async def _report(host: Host, folder: Path) -> None:
    history = await host.history(INSTANCE)
    report = {
        "status": history.instance.status,
        "output": history.output,
        "steps": [[step.name, step.state, len(step.attempts)] for step in history.steps],
        "events": len(history.events),
        "is_proven": all(context.stop is not None for context in history.contexts),
    }
    (folder / "report").write_text(json.dumps(report))


async def allow(name: ErrorName, call: Awaitable[object]) -> None:
    try:
        await call
    except InstanceRefused as refused:
        if refused.name is not name:
            raise


def complaints(scenario: Scenario, folder: Path, may_repeat: bool) -> list[str]:
    """What is wrong with the report and the effects; one effect may be there once more when `may_repeat`."""
    report = json.loads((folder / "report").read_text())
    output = None if scenario.output is None else json.dumps(scenario.output, separators=(",", ":"))
    expected = {
        "status": scenario.status,
        "output": output,
        "steps": [list(step) for step in scenario.steps],
        "events": 0,
        "is_proven": True,
    }
    wrong = [f"{key} is {report[key]!r}" for key in expected if report[key] != expected[key]]
    counted = Diary(folder).counted()
    extra = counted - Counter(scenario.effects)
    if Counter(scenario.effects) - counted or extra.total() > may_repeat:
        wrong.append(f"effects are {dict(counted)}")
    return wrong
