"""`/v1/workflows/<uid>/instances`: instances shown, created, sent events and terminated by people and tests."""

from http import HTTPStatus
from urllib.parse import unquote_to_bytes

import rfc8785
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from emulator.management.bodies import read_body
from emulator.management.errors import ManagementRefused
from emulator.management.parts import Inspection, InstanceCalls
from emulator.workflow import ErrorName, InstanceRefused
from host.model.json import JsonObject, JsonRefused, JsonValue, decode_object

_MAX_BODY_BYTES = 8 * 1024 * 1024
_LARGEST_PAGE = 1000
_STATUSES = {
    ErrorName.INVALID_PARAMS: HTTPStatus.UNPROCESSABLE_ENTITY,
    ErrorName.DOCUMENT_TOO_LARGE: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    ErrorName.INSTANCE_EXISTS: HTTPStatus.CONFLICT,
    ErrorName.UNKNOWN_INSTANCE: HTTPStatus.NOT_FOUND,
    ErrorName.INSTANCE_TERMINAL: HTTPStatus.CONFLICT,
    ErrorName.EVENT_QUEUE_FULL: HTTPStatus.CONFLICT,
    ErrorName.BACKEND_UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
    ErrorName.TYPE_ERROR: HTTPStatus.BAD_REQUEST,
}
"""A refusal's code is the exact name that app code gets; a TypeError is an `invalid_request`."""


class InstanceRoutes:
    """An id in a path is percent-encoded: any scalar values, `/` included."""

    def __init__(self, inspection: Inspection, calls: InstanceCalls) -> None:
        self._inspection = inspection
        self._calls = calls

    async def show(self, request: Request) -> Response:
        """A page of instances, or one with its history."""
        match _raw_segments(request):
            case [uid, "instances"]:
                return await self._list(request, uid)
            case [uid, "instances", instance_id]:
                shown = await self._inspection.show_instance(uid, instance_id)
                if shown is not None:
                    return StreamingResponse(shown, media_type="application/json")
                raise ManagementRefused(404, "not_found", f"Workflow {uid!r} has no instance {instance_id!r}")
            case _:
                raise _no_such_route()

    async def _list(self, request: Request, uid: str) -> Response:
        """`?limit=1..1000&after=<next of the page before>`."""
        limit = _query_number(request, "limit", 1, _LARGEST_PAGE, _LARGEST_PAGE)
        after = _query_number(request, "after", 0, 2**63 - 1, 0)
        page = await self._inspection.list_instances(uid, after, limit)
        if page is None:
            raise _no_such_workflow(uid)
        items, following = page
        return JSONResponse({"workflowUid": uid, "items": items, "next": None if following is None else str(following)})

    async def act(self, request: Request) -> Response:
        """`POST instances` creates, `POST instances/<id>/events` sends, `POST instances/<id>/terminate` ends."""
        try:
            match _raw_segments(request):
                case [uid, "instances"]:
                    return await self._create(request, uid)
                case [uid, "instances", instance_id, "events"]:
                    return await self._send_event(request, uid, instance_id)
                case [uid, "instances", instance_id, "terminate"]:
                    await _read(request, ())
                    await self._calls.terminate(uid, instance_id)
                    return JSONResponse({})
                case _:
                    raise _no_such_route()
        except InstanceRefused as refused:
            code = "invalid_request" if refused.name is ErrorName.TYPE_ERROR else refused.name.value
            raise ManagementRefused(_STATUSES[refused.name], code, str(refused)) from refused

    async def _create(self, request: Request, uid: str) -> Response:
        body = await _read(request, ("id", "params"))
        if await self._inspection.list_instances(uid, 0, 1) is None:
            raise _no_such_workflow(uid)
        instance_id = _text(body, "id") if "id" in body else None
        params = _document(body, "params", ErrorName.INVALID_PARAMS)
        return JSONResponse({"id": await self._calls.create(uid, instance_id, params)})

    async def _send_event(self, request: Request, uid: str, instance_id: str) -> Response:
        body = await _read(request, ("type", "payload"))
        payload = _document(body, "payload", ErrorName.TYPE_ERROR)
        await self._calls.send_event(uid, instance_id, _text(body, "type"), payload)
        return JSONResponse({})


async def _read(request: Request, fields: tuple[str, ...]) -> JsonObject:
    """A closed object; an empty body is `{}`."""
    content = await read_body(request, _MAX_BODY_BYTES)
    try:
        body = decode_object(content or b"{}")
    except JsonRefused as error:
        raise ManagementRefused(400, "invalid_request", f"the body: {error}") from error
    for name in body:
        if name not in fields:
            raise ManagementRefused(400, "invalid_request", f"unknown field {name!r}")
    return body


def _text(body: JsonObject, name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str):
        raise ManagementRefused(400, "invalid_request", f"field {name!r} must be a text")
    return value


def _document(body: JsonObject, name: str, otherwise: ErrorName) -> str | None:
    """The member's canonical text; none when it is absent (DW-14, DW-15)."""
    if name not in body:
        return None
    try:
        return rfc8785.dumps(_as_doubles(body[name])).decode()
    except (rfc8785.CanonicalizationError, OverflowError) as error:
        raise InstanceRefused(otherwise, f"{name}: {error}") from error


def _as_doubles(value: JsonValue) -> JsonValue:
    """Numbers as JavaScript reads them."""
    match value:
        case dict():
            return {name: _as_doubles(member) for name, member in value.items()}
        case list():
            return [_as_doubles(item) for item in value]
        case bool():
            return value
        case int():
            return float(value)
        case _:
            return value


def _query_number(request: Request, name: str, least: int, most: int, otherwise: int) -> int:
    given = request.query_params.getlist(name)
    if not given:
        return otherwise
    if len(given) > 1 or not given[0].isascii() or not given[0].isdigit() or not least <= int(given[0]) <= most:
        raise ManagementRefused(400, "invalid_request", f"{name} must be one integer from {least} to {most}")
    return int(given[0])


def _no_such_workflow(uid: str) -> ManagementRefused:
    return ManagementRefused(404, "not_found", f"there is no Workflow {uid!r}")


def _no_such_route() -> ManagementRefused:
    return ManagementRefused(404, "not_found", "use /v1/workflows/<uid>/instances[/<id>[/events or /terminate]]")


def _raw_segments(request: Request) -> list[str]:
    """The segments after `/v1/workflows/`, split before they are decoded."""
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    encoded = raw.partition(b"?")[0].split(b"/")[3:]
    try:
        return [unquote_to_bytes(segment).decode("utf-8") for segment in encoded]
    except UnicodeDecodeError as error:
        raise ManagementRefused(400, "invalid_request", "the path is not percent-encoded UTF-8") from error
