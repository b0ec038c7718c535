"""The management listener's routes: artifacts, clock, instances, faults, processes. Never part of a contract."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import Route

from emulator.management.clock import ClockControl
from emulator.management.clock_routes import ClockRoutes
from emulator.management.errors import (
    ManagementRefused,
    answer_failure,
    answer_http_error,
    answer_no_room,
    answer_refused,
)
from emulator.management.guard import Guard
from emulator.management.instance_routes import InstanceRoutes
from emulator.management.log_routes import LogRoutes
from emulator.management.parts import (
    Inspection,
    InstanceCalls,
    Processes,
    Settlements,
    Triggers,
    Uploads,
    Withdrawals,
    Words,
)
from emulator.management.routes import (
    ArtifactRoutes,
    DocumentRoutes,
    FaultRoutes,
    ListenerRoutes,
    OperationRoutes,
    ProcessRoutes,
    WithdrawalRoutes,
)
from emulator.management.trigger_routes import TriggerRoutes
from host.model.faults import FaultPoints
from host.model.json import JsonObject
from host.model.room import NoRoom


@dataclass(frozen=True, slots=True)
class ManagementParts:
    """What the routes act on, wired by the composition root."""

    artifacts: Uploads
    principals: Callable[[], Collection[str]]
    clock: ClockControl
    instances: Inspection
    calls: InstanceCalls
    withdrawals: Withdrawals
    faults: FaultPoints
    processes: Processes
    openapi: Callable[[], JsonObject]
    operations: Settlements
    words: Words
    listeners: JsonObject
    triggers: Triggers


def create_app(parts: ManagementParts, hosts: Collection[str], token: str) -> Starlette:
    """The ASGI app; `hosts` are the `host:port` spellings it answers to."""
    artifacts = ArtifactRoutes(parts.artifacts, parts.principals)
    clock = ClockRoutes(parts.clock)
    faults = FaultRoutes(parts.faults)
    triggers = TriggerRoutes(parts.triggers)
    instances = InstanceRoutes(parts.instances, parts.calls)
    routes = [
        Route("/v1/artifacts/sha256/{digest}", artifacts.put, methods=["PUT"]),
        Route("/v1/artifacts/sha256/{digest}", artifacts.delete, methods=["DELETE"]),
        Route("/v1/clock", clock.show, methods=["GET"]),
        Route("/v1/clock/{change}", clock.change, methods=["POST"]),
        Route("/v1/workflows/{address:path}", instances.show, methods=["GET"]),
        Route("/v1/workflows/{address:path}", instances.act, methods=["POST"]),
        Route("/v1/workers/{uid}/scheduled", triggers.scheduled, methods=["POST"]),
        Route("/v1/workers/{uid}/queue", triggers.queue, methods=["POST"]),
        Route("/v1/workers/{uid}/queue", triggers.deliveries, methods=["GET"]),
        Route("/v1/withdrawals", WithdrawalRoutes(parts.withdrawals).show, methods=["GET"]),
        Route("/v1/faults", faults.show, methods=["GET"]),
        Route("/v1/faults", faults.arm, methods=["POST"]),
        Route("/v1/operations/{id}/settle", OperationRoutes(parts.operations).settle, methods=["POST"]),
        Route("/v1/openapi.json", DocumentRoutes(parts.openapi).show, methods=["GET"]),
        Route("/v1/logs", LogRoutes(parts.words).show, methods=["GET"]),
        Route("/v1/listeners", ListenerRoutes(parts.listeners).show, methods=["GET"]),
        Route("/v1/processes", ProcessRoutes(parts.processes).show, methods=["GET"]),
    ]
    return Starlette(
        routes=routes,
        middleware=[Middleware(Guard, hosts=hosts, token=token)],
        exception_handlers={
            ManagementRefused: answer_refused,
            HTTPException: answer_http_error,
            NoRoom: answer_no_room,
            OSError: answer_no_room,
            Exception: answer_failure,
        },
    )
