"""Claiming a due instance: one batch pins a Version, resolves what is due in its history and reads the history.

Starts nothing: it gives what a context is started with.
"""

from dataclasses import dataclass

from emulator.contexts import ContextStart, StepRecord
from emulator.d1 import Result, named
from emulator.runstore.address import RunAddress
from emulator.runstore.schema import AT_ADDRESS
from emulator.runstore.statements import at
from emulator.workflow import context_rows, due, step_rows, transitions
from emulator.workflow.due import DueInstance
from emulator.workflow.history import History, Step, StepState
from emulator.workflow.surroundings import Surroundings
from host.ports import VersionRecord


@dataclass(frozen=True, slots=True)
class Claim:
    """An instance owned for one context."""

    address: RunAddress
    owner: str
    context_id: str
    version: VersionRecord
    class_name: str
    params_text: str | None
    steps: tuple[tuple[Step, str | None], ...]

    def history(self) -> History:
        """A new history of the steps, for the host's side of the context."""
        return History(step for step, _ in self.steps)

    def start(self, now_ms: int | None) -> ContextStart:
        """What the isolate is started with."""
        return ContextStart(
            context_id=self.context_id,
            version=self.version,
            class_name=self.class_name,
            instance_id=self.address.run_id,
            params_text=self.params_text,
            steps=tuple(_told(step, text) for step, text in self.steps),
            now_ms=now_ms,
        )


def _told(step: Step, text: str | None) -> StepRecord:
    if step.is_large:
        return StepRecord(step.name, "large", None)
    if step.state is StepState.PENDING:
        return StepRecord(step.name, f"pending:{step.kind}:{step.attempt}:{step.settings or ''}", None)
    return StepRecord(step.name, step.state.value, text)


async def claim(surroundings: Surroundings, due_instance: DueInstance, context_id: str) -> Claim | None:
    """Claim, or none when the instance, its gate or the weights changed meanwhile. Raises `DatabaseError`."""
    version = await surroundings.catalog.draw(due_instance.worker_uid, surroundings.random)
    if version is None or version.secrets is None or version.is_withheld:
        return None  # without its secrets, or its held bytes, a Version takes no new work (WD-08)
    address, owner = due_instance.address, surroundings.ids()
    now_ms = surroundings.clock.now_ms()
    taken, *_, params, history = await surroundings.database.batch(
        [
            transitions.claim(address, due_instance.revision, owner, version.version_uid, now_ms),
            *step_rows.settle_due(address, owner, now_ms),
            context_rows.insert_claimed(address, owner, context_id, version.version_uid, now_ms),
            *due.refresh(address),
            named(f"SELECT snapshot ->> '$.params' FROM runs WHERE {AT_ADDRESS}", at(address)),
            step_rows.select_history(address),
        ]
    )
    if not taken.is_applied:
        return None
    return Claim(
        address=address,
        owner=owner,
        context_id=context_id,
        version=version,
        class_name=due_instance.class_name,
        params_text=_params(params),
        steps=tuple(step_rows.known_step(row) for row in history.rows),
    )


def _params(result: Result) -> str | None:
    [[text]] = result.rows
    return None if text is None else str(text)
