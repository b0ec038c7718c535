"""The other management routes, from artifacts to withdrawals. Each class speaks for one part."""

from collections.abc import Callable, Collection

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from emulator.artifacts import ArtifactTooLarge, is_digest
from emulator.management.bodies import read_object, require
from emulator.management.errors import ManagementRefused
from emulator.management.parts import Processes, Settlements, Uploads, Withdrawals
from host.model.errors import HostError
from host.model.faults import DEFAULT_DELAY_S, FaultAction, FaultPoints, UnknownFaultPoint, registered
from host.model.json import JsonObject
from host.model.operation_states import Effect
from host.ports import ArtifactRefused

DEFAULT_PRINCIPAL = "local"
_MOST_NAMED = 20


class ArtifactRoutes:
    """`/v1/artifacts/sha256/<digest>?principal=<id>`."""

    def __init__(self, uploads: Uploads, principals: Callable[[], Collection[str]]) -> None:
        self._uploads = uploads
        self._principals = principals

    async def put(self, request: Request) -> Response:
        """Store the exact body for a principal that this host knows; 200 with digest and size."""
        digest, principal = _addressed(request)
        self._check_known(principal)
        try:
            held = await self._uploads.put(principal, digest, request.stream())
        except ArtifactTooLarge as error:
            raise ManagementRefused(413, "artifact_too_large", str(error)) from error
        except ArtifactRefused as error:
            raise ManagementRefused(422, "digest_mismatch", str(error)) from error
        return JSONResponse({"sha256": held.sha256, "byteSize": held.size_bytes, "principal": principal})

    def _check_known(self, principal: str) -> None:
        """What is uploaded for a misspelt name would be held for nobody. Raises `ManagementRefused`."""
        try:
            known = sorted(self._principals())
        except HostError as error:
            raise ManagementRefused(503, error.code, error.detail) from error
        if principal not in known:
            shown = ", ".join(known[:_MOST_NAMED]) + (", ..." if len(known) > _MOST_NAMED else "")
            message = f"there is no principal {principal!r} here: ?principal= is one of {shown or '(nobody yet)'}"
            raise ManagementRefused(404, "unknown_principal", message)

    async def delete(self, request: Request) -> Response:
        """Take an upload back, also of a principal that is gone; Resources that hold the bytes keep them."""
        digest, principal = _addressed(request)
        if not await self._uploads.withdraw(principal, digest):
            raise ManagementRefused(404, "not_found", f"sha256 {digest} was not uploaded for {principal!r}")
        return Response(status_code=204)


def _addressed(request: Request) -> tuple[str, str]:
    digest = request.path_params["digest"]
    if not is_digest(digest):
        raise ManagementRefused(400, "invalid_request", "a digest is 64 lower-case hex digits")
    given = request.query_params.multi_items()
    if any(name != "principal" for name, _ in given) or len(given) > 1:
        raise ManagementRefused(400, "invalid_request", "the only query parameter is principal, once")
    principal = given[0][1] if given else DEFAULT_PRINCIPAL
    if not principal:
        raise ManagementRefused(400, "invalid_request", "principal must not be empty")
    return digest, principal


class FaultRoutes:
    """`/v1/faults`: kill points of the host, for tests of the host."""

    def __init__(self, faults: FaultPoints) -> None:
        self._faults = faults

    async def show(self, request: Request) -> Response:
        """`armed` is null, or what will happen and at the how many-th time from now."""
        armed = {name: {"action": action, "nth": nth} for name, (action, nth) in self._faults.armed().items()}
        items = [{"name": name, "meaning": text, "armed": armed.get(name)} for name, text in registered().items()]
        return JSONResponse({"items": items})

    async def arm(self, request: Request) -> Response:
        """`{"name", "nth"?: 1, "action"?: "kill"|"error"|"delay", "seconds"?: 1}`; a delay is one of real time."""
        members = {"name": (str,), "nth": (int,), "action": (str,), "seconds": (int, float)}
        body = await read_object(request, members)
        name, nth, action = require(body, "name"), body.get("nth", 1), body.get("action", "kill")
        seconds = body.get("seconds", DEFAULT_DELAY_S)
        assert isinstance(name, str) and isinstance(nth, int) and isinstance(seconds, int | float)
        if action not in set(FaultAction):
            raise ManagementRefused(400, "invalid_request", "action is kill, error or delay")
        try:
            self._faults.arm(name, nth, FaultAction(str(action)), seconds)
        except UnknownFaultPoint as error:
            raise ManagementRefused(404, "not_found", str(error)) from error
        except ValueError as error:
            raise ManagementRefused(400, "invalid_request", str(error)) from error
        return JSONResponse({"armed": {"name": name, "nth": nth, "action": action}})


class OperationRoutes:
    """`/v1/operations/<id>/settle`: what an operator has found out about an Operation that stays reconciling."""

    def __init__(self, settlements: Settlements) -> None:
        self._settlements = settlements

    async def settle(self, request: Request) -> Response:
        """`{"effect": "none"|"partial", "message"}`: the Operation fails with that effect (HA-46)."""
        body = await read_object(request, {"effect": (str,), "message": (str,)})
        effect, message = require(body, "effect"), require(body, "message")
        if effect not in (Effect.NONE, Effect.PARTIAL):
            raise ManagementRefused(400, "invalid_request", "effect is none or partial")
        settled = await self._settlements.settle(request.path_params["id"], Effect(str(effect)), str(message))
        if settled is None:
            raise ManagementRefused(409, "not_reconciling", "no Operation of this id reconciles now")
        return JSONResponse({"id": settled.id, "status": settled.status, "effect": settled.effect})


class DocumentRoutes:
    """`/v1/openapi.json`: the Host API as this host serves it."""

    def __init__(self, document: Callable[[], JsonObject]) -> None:
        self._document = document

    async def show(self, request: Request) -> Response:
        return JSONResponse(self._document())


class ListenerRoutes:
    """`/v1/listeners`: the origins of this start, ports included; no Resource says them."""

    def __init__(self, listeners: JsonObject) -> None:
        self._listeners = listeners

    async def show(self, request: Request) -> Response:
        return JSONResponse(self._listeners)


class ProcessRoutes:
    """`/v1/processes`."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes

    async def show(self, request: Request) -> Response:
        items: list[JsonObject] = [
            {
                "role": figures.role,
                "pid": figures.pid,
                "residentBytes": figures.resident_bytes,
                "cpuMs": figures.cpu_ms,
                "contexts": figures.contexts,
                "versionUid": figures.version_uid,
            }
            for figures in self._processes.processes()
        ]
        return JSONResponse({"items": items})


class WithdrawalRoutes:
    """`/v1/withdrawals`: Versions that left the weights, and how what ran on them was stopped."""

    def __init__(self, withdrawals: Withdrawals) -> None:
        self._withdrawals = withdrawals

    async def show(self, request: Request) -> Response:
        return JSONResponse({"items": await self._withdrawals.list_withdrawals()})
