"""What the management listener needs of the running host, as small protocols. Owns no behaviour."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from emulator.events import Batch
from host.model.json import JsonObject
from host.model.operation_states import Effect
from host.model.records import Operation
from host.ports import HeldArtifact


class Uploads(Protocol):
    """Where artifacts are put; `emulator.artifacts.ArtifactCustody` is one."""

    async def put(self, principal: str, digest: str, stream: AsyncIterator[bytes]) -> HeldArtifact:
        """Raises `ArtifactRefused` subclasses."""

    async def withdraw(self, principal: str, digest: str) -> bool:
        """Whether there was an upload to take back."""


class Workload(Protocol):
    """What contract time is waiting for."""

    async def next_due_ms(self) -> int | None:
        """The earliest later instant at which something falls due, or None."""

    async def idle(self) -> None:
        """Return once everything due by now was started and no context executes."""

    def executing(self) -> tuple[str, ...]:
        """Names of the instances whose contexts execute now, for people."""


class Inspection(Protocol):
    """Instances as people see them; the shapes are documented in the README."""

    async def list_instances(
        self, workflow_uid: str, after: int, most: int
    ) -> tuple[list[JsonObject], int | None] | None:
        """At most `most` in order of creation behind the place `after`, and the place to go on after, if any.

        None for an unknown Workflow.
        """

    async def show_instance(self, workflow_uid: str, instance_id: str) -> AsyncIterator[str] | None:
        """The JSON text of one instance with steps, events and contexts, in pieces, or None when it is unknown."""


class InstanceCalls(Protocol):
    """What may be done with instances. Raises `emulator.workflow.InstanceRefused`; texts are canonical documents."""

    async def create(self, workflow_uid: str, instance_id: str | None, params_text: str | None) -> str:
        """Admit one and give its id."""

    async def send_event(
        self, workflow_uid: str, instance_id: str, event_type: str, payload_text: str | None
    ) -> None: ...

    async def terminate(self, workflow_uid: str, instance_id: str) -> None: ...


class Withdrawals(Protocol):
    """Versions that left the weights."""

    async def list_withdrawals(self) -> list[JsonObject]: ...


@dataclass(frozen=True, slots=True)
class ProcessFigures:
    """One process of the host: `role` is host, gateway, ward or runner; figures as the platform gives them.

    A ward serves the one Version `version_uid`.
    """

    role: str
    pid: int
    resident_bytes: int | None
    cpu_ms: int | None
    contexts: int | None = None
    version_uid: str | None = None


class Settlements(Protocol):
    """Operations that the host cannot decide; `host.engine.engine.Engine` is one."""

    async def settle(self, operation_id: str, effect: Effect, message: str) -> Operation | None:
        """End one that reconciles now as failed; None when there is none."""


class Word(Protocol):
    """One line of a Worker."""

    def to_json(self) -> JsonObject:
        """Its shape is documented in the README."""


class Words(Protocol):
    """What Workers say; `emulator.runtime.app_log.AppLog` is one."""

    def recent(self) -> Sequence[Word]:
        """The lines kept, oldest first."""

    def follow(self) -> AsyncIterator[Word | int]:
        """Those and each later one; a number is how many were missed."""


class Triggers(Protocol):
    """Handlers called by hand; the shapes are documented in the README.

    Raises `emulator.events.NotStarted`, `host.ports.BackendUnavailable`.
    """

    async def scheduled(self, worker_uid: str, cron: str, scheduled_ms: int | None) -> JsonObject:
        """What became of one `scheduled` call; its time is now unless one is given."""

    async def queue(self, worker_uid: str, batch: Batch) -> JsonObject:
        """What became of one batch."""

    async def deliveries(self, worker_uid: str) -> list[JsonObject]:
        """The batches kept, the oldest first."""

    def now_ms(self) -> int:
        """Contract time, for what was not given."""


class Processes(Protocol):
    def processes(self) -> tuple[ProcessFigures, ...]:
        """The host and its children now."""
