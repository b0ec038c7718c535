"""What the contract says that a program of steps comes to, as a pure simulation. Knows no engine, row or process.

A program is data, so that scripted isolates, JavaScript and this model all run the same one. Time is a number that
stands still while code runs.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

from emulator.workflow import ErrorName

LIFETIME_MS = 31_536_000_000
KEPT_MS = 2_592_000_000 + 60_000


@dataclass(frozen=True)
class Policy:
    """A retry policy as app code writes it."""

    attempts: int
    delay_s: int = 0
    is_exponential: bool = False
    most_s: int = 43_200

    def document(self) -> dict[str, object]:
        backoff = "exponential" if self.is_exponential else "constant"
        return {
            "maxAttempts": self.attempts,
            "initialDelaySeconds": self.delay_s,
            "backoff": backoff,
            "maxDelaySeconds": self.most_s,
        }

    def delay_after(self, attempt: int) -> int:
        return min(self.most_s, self.delay_s * (2 ** (attempt - 1) if self.is_exponential else 1))


@dataclass(frozen=True)
class Do:
    """The effect fails until `ok_after_s` after the creation; its first `deaths` runs take their process along."""

    name: str
    ok_after_s: int = 0
    policy: Policy | None = None
    is_caught: bool = True
    deaths: int = 0


@dataclass(frozen=True)
class Sleep:
    name: str
    seconds: int
    is_caught: bool = True


@dataclass(frozen=True)
class Wait:
    name: str
    type: str
    timeout_s: int
    is_caught: bool = True


Op: TypeAlias = Do | Sleep | Wait


@dataclass(frozen=True)
class Program:
    """Operations in order; then it throws or returns what each gave."""

    ops: tuple[Op, ...]
    throws: bool = False


@dataclass
class Record:
    """A step of the history. `outcomes` of attempts; `result` is what the step gives when it succeeded."""

    kind: str
    state: str = "pending"
    outcomes: list[str] = field(default_factory=list)
    due_ms: int | None = None
    settled_ms: int | None = None
    result: object = None
    policy: Policy | None = None
    type: str = ""


class _Parked(Exception):
    """The context is stopped; the status says how."""


class _Raised(Exception):
    """A host error of a step that failed or timed out."""

    def __init__(self, name: str, state: str) -> None:
        super().__init__(name)
        self.name = name
        self.state = state


class Model:
    """One instance from its creation on."""

    def __init__(self, program: Program, now_ms: int) -> None:
        self.program = program
        self.created_ms = self.now_ms = now_ms
        self.status, self.reason, self.output = "queued", "", None
        self.steps: dict[str, Record] = {}
        self.events: list[tuple[str, object]] = []
        self._due_ms: int | None = None
        self._ended_ms = 0
        self._run()

    output: object

    @property
    def has_ended(self) -> bool:
        return self.status in ("complete", "errored", "terminated")

    @property
    def is_gone(self) -> bool:
        return self.has_ended and self.now_ms >= self._ended_ms + KEPT_MS

    def advance(self, seconds: int) -> None:
        until_ms = self.now_ms + seconds * 1000
        expires_ms = self.created_ms + LIFETIME_MS
        while not self.has_ended and self._due_ms is not None and min(self._due_ms, expires_ms) <= until_ms:
            self.now_ms = max(self.now_ms, min(self._due_ms, expires_ms))
            if self.now_ms >= expires_ms:
                self._end("errored", "lifetime_exceeded")
            else:
                self._run()
        if not self.has_ended and expires_ms <= until_ms:
            self.now_ms = expires_ms
            self._end("errored", "lifetime_exceeded")
        self.now_ms = until_ms

    def send(self, event_type: str, payload: object) -> ErrorName | None:
        """Accept an event, or say how it is refused."""
        if self.is_gone:
            return ErrorName.UNKNOWN_INSTANCE
        if self.has_ended:
            return ErrorName.INSTANCE_TERMINAL
        self.events.append((event_type, payload))
        waiting = next((each for each in self.steps.values() if each.state == "pending"), None)
        if waiting is not None and waiting.kind == "wait" and waiting.type == event_type:
            self._run()
        return None

    def terminate(self) -> ErrorName | None:
        if self.is_gone:
            return ErrorName.UNKNOWN_INSTANCE
        if not self.has_ended:
            self._end("terminated", "")
        return None

    def _end(self, status: str, reason: str, output: object = None) -> None:
        self.status, self.reason, self.output = status, reason, output
        self._ended_ms = self.now_ms
        self.events.clear()

    def _run(self) -> None:
        """Contexts, each a replay from the start, until one parks or ends."""
        while True:
            self.status = "running"
            try:
                given = [self._step(op) for op in self.program.ops]
            except _Parked:
                if self.status != "queued":
                    return
                continue
            except _Raised as error:
                self._end("errored", "step_failed" if error.state == "failed" else "run_threw")
                return
            pending = any(record.state == "pending" for record in self.steps.values())
            if pending:
                self._end("errored", "step_definition_mismatch")
            elif self.program.throws:
                self._end("errored", "run_threw")
            else:
                self._end("complete", "", {"given": given})
            return

    def _step(self, op: Op) -> object:
        try:
            return self._settled(op)
        except _Raised as error:
            if not op.is_caught:
                raise
            return {"caught": error.state}

    def _settled(self, op: Op) -> object:
        kind = {Do: "do", Sleep: "sleep", Wait: "wait"}[type(op)]
        record = self.steps.setdefault(op.name, Record(kind))
        if record.state == "pending":
            assert record.kind == kind
            match op:
                case Do():
                    self._attempt(op, record)
                case Sleep():
                    self._sleep(op, record)
                case Wait():
                    self._wait(op, record)
        if record.state != "succeeded":
            raise _Raised(op.name, record.state)
        return None if kind == "sleep" else record.result

    def _settle(self, record: Record, state: str, result: object = None) -> None:
        record.state, record.result, record.settled_ms = state, result, self.now_ms

    def _park(self, status: str, due_ms: int) -> None:
        self.status, self._due_ms = status, due_ms
        raise _Parked

    def _attempt(self, op: Do, record: Record) -> None:
        if not record.outcomes:
            record.policy = op.policy
        number = len(record.outcomes) + 1
        if self.now_ms >= self.created_ms + op.ok_after_s * 1000:
            record.outcomes.append("succeeded")
            self._settle(record, "succeeded", {"of": op.name})
            return
        record.outcomes.append("failed")
        if record.policy is None or number >= record.policy.attempts:
            self._settle(record, "failed")
            return
        delay_s = record.policy.delay_after(number)
        self._park("sleeping" if delay_s else "queued", self.now_ms + delay_s * 1000)

    def _sleep(self, op: Sleep, record: Record) -> None:
        if record.due_ms is None:
            record.due_ms = self.now_ms + op.seconds * 1000
        if record.due_ms > self.now_ms:
            self._park("sleeping", record.due_ms)
        self._settle(record, "succeeded")

    def _wait(self, op: Wait, record: Record) -> None:
        """Events are accepted at an instant that the simulation has reached, so none is too late for a pending wait."""
        if record.due_ms is None:
            record.due_ms, record.type = self.now_ms + op.timeout_s * 1000, op.type
        found = next((each for each in self.events if each[0] == record.type), None)
        if found is not None:
            self.events.remove(found)
            self._settle(record, "succeeded", found[1])
        elif record.due_ms > self.now_ms:
            self._park("waiting", record.due_ms)
        else:
            self._settle(record, "timeout")
