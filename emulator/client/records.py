"""Resources and Operations as a client sees them; unknown fields are ignored, unknown states are no success (HA-92)."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from emulator.client.errors import UnexpectedAnswer

FORMS_ORIGIN = "https://edge.forms.takoform.com/forms"
MODULE_WORKER = f"{FORMS_ORIGIN}/ModuleWorker/0.3.0/"
WORKER_BUNDLE = f"{FORMS_ORIGIN}/WorkerBundle/0.2.0/"
STATIC_ASSET_BUNDLE = f"{FORMS_ORIGIN}/StaticAssetBundle/0.2.0/"
WORKER_VERSION = f"{FORMS_ORIGIN}/WorkerVersion/0.5.0/"
WORKER_DEPLOYMENT = f"{FORMS_ORIGIN}/WorkerDeployment/0.4.0/"
WORKER_ENDPOINT = f"{FORMS_ORIGIN}/WorkerEndpoint/0.3.0/"
DURABLE_WORKFLOW = f"{FORMS_ORIGIN}/DurableWorkflow/0.3.0/"


class OperationStatus(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    WAITING_INPUT = "waiting_input"
    RECONCILING = "reconciling"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Operation:
    """The fields of HA-41 that a client acts on."""

    id: str
    resource_uid: str
    status: OperationStatus
    effect: str
    error_code: str
    error_message: str


@dataclass(frozen=True, slots=True)
class Resource:
    """The fields of HA-30 that a client acts on; `spec`, `observed` and `output` as they came."""

    uid: str
    form: str
    space: str
    name: str
    generation: int
    phase: str
    spec: dict[str, Any]
    observed: dict[str, Any]
    output: dict[str, Any]


def read_operation(document: dict[str, Any]) -> Operation:
    """Raises `UnexpectedAnswer` for what is no Operation or has a status unknown here."""
    error = document.get("error") or {}
    try:
        return Operation(
            id=str(document["id"]),
            resource_uid=str(document["resourceUid"]),
            status=OperationStatus(document["status"]),
            effect=str(document["effect"]),
            error_code=str(error.get("code", "")),
            error_message=str(error.get("message", "")),
        )
    except (KeyError, ValueError, AttributeError) as fault:
        raise UnexpectedAnswer(f"not an Operation this client understands: {fault!r}") from fault


def read_resource(document: dict[str, Any]) -> Resource:
    """Raises `UnexpectedAnswer` for what is no Resource."""
    try:
        return Resource(
            uid=str(document["uid"]),
            form=str(document["form"]),
            space=str(document["space"]),
            name=str(document["name"]),
            generation=int(document["generation"]),
            phase=str(document["phase"]),
            spec=dict(document["spec"]),
            observed=dict(document["observed"]),
            output=dict(document["output"]),
        )
    except (KeyError, ValueError, TypeError) as fault:
        raise UnexpectedAnswer(f"not a Resource this client understands: {fault!r}") from fault
