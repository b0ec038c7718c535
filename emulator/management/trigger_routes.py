"""`/v1/workers/<uid>/scheduled` and `/queue`: handlers fired by people and tests. Knows only HTTP and the events."""

import base64
import binascii
import secrets
from collections.abc import Awaitable
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from emulator.events import Batch, EventRefused, Message, NotStarted, Refusal
from emulator.management.bodies import read_body
from emulator.management.errors import ManagementRefused
from emulator.management.parts import Triggers
from host.model.cron import CronRefused, check_cron
from host.model.json import JsonObject, JsonRefused, JsonValue, decode_object
from host.model.time import LATEST_MS
from host.ports import BackendUnavailable

_MAX_BODY_BYTES = 8 * 1024 * 1024
_STATUSES = {
    Refusal.UNKNOWN_WORKER: HTTPStatus.NOT_FOUND,
    Refusal.NO_DEPLOYMENT: HTTPStatus.CONFLICT,
    Refusal.HANDLER_NOT_DECLARED: HTTPStatus.CONFLICT,
    Refusal.SECRETS_LOST: HTTPStatus.CONFLICT,
    Refusal.FILES_LOST: HTTPStatus.CONFLICT,
}


class TriggerRoutes:
    """A handler that fails is an answer like any other; only what was never started is an error (MW-17)."""

    def __init__(self, triggers: Triggers) -> None:
        self._triggers = triggers

    async def scheduled(self, request: Request) -> Response:
        """`{"cron", "scheduledTime"?: ms}`."""
        body = await _read(request, ("cron", "scheduledTime"))
        cron = _text(body, "cron")
        try:
            check_cron(cron)
        except CronRefused as error:
            raise _wrong(f"cron: {error}") from error
        scheduled_ms = _integer(body, "scheduledTime") if "scheduledTime" in body else None
        if scheduled_ms is not None and not 0 <= scheduled_ms <= LATEST_MS:
            raise _wrong("scheduledTime is in Unix milliseconds, up to the year 9999")
        return await _fired(self._triggers.scheduled(_worker(request), cron, scheduled_ms))

    async def queue(self, request: Request) -> Response:
        """`{"queue", "messages": [{"id"?, "body" | "text", "timestampMillis"?, "attempts"?}], "batchId"?,
        "retryDelaySeconds"?}`; `body` is base64."""
        body = await _read(request, ("queue", "batchId", "retryDelaySeconds", "messages"))
        try:
            batch = _batch(body, self._triggers.now_ms())
        except EventRefused as error:
            raise _wrong(str(error)) from error
        return await _fired(self._triggers.queue(_worker(request), batch))

    async def deliveries(self, request: Request) -> Response:
        """What was delivered to the Worker's `queue` handler, the oldest first."""
        return JSONResponse({"items": await self._triggers.deliveries(_worker(request))})


async def _fired(call: Awaitable[JsonObject]) -> Response:
    try:
        return JSONResponse(await call)
    except NotStarted as error:
        raise ManagementRefused(_STATUSES[error.refusal], error.refusal.value, str(error)) from error
    except BackendUnavailable as error:
        raise ManagementRefused(503, "backend_unavailable", str(error)) from error


def _batch(body: JsonObject, now_ms: int) -> Batch:
    given = body.get("messages")
    if not isinstance(given, list):
        raise _wrong("messages is a list")
    return Batch(
        batch_id=_text(body, "batchId") if "batchId" in body else secrets.token_hex(8),
        queue=_text(body, "queue"),
        messages=tuple(_message(each, number, now_ms) for number, each in enumerate(given, 1)),
        retry_delay_s=_integer(body, "retryDelaySeconds") if "retryDelaySeconds" in body else 0,
    )


def _message(given: JsonValue, number: int, now_ms: int) -> Message:
    if not isinstance(given, dict):
        raise _wrong("a message is an object")
    _check_names(given, ("id", "body", "text", "timestampMillis", "attempts"))
    return Message(
        id=_text(given, "id") if "id" in given else f"message-{number}",
        body=_content(given),
        timestamp_ms=_integer(given, "timestampMillis") if "timestampMillis" in given else now_ms,
        attempts=_integer(given, "attempts") if "attempts" in given else 1,
    )


def _content(given: JsonObject) -> bytes:
    if ("body" in given) == ("text" in given):
        raise _wrong("a message has either body, in base64, or text")
    if "text" in given:
        return _text(given, "text").encode()
    try:
        return base64.b64decode(_text(given, "body"), validate=True)
    except (binascii.Error, ValueError) as error:
        raise _wrong("body is padded standard base64") from error


async def _read(request: Request, names: tuple[str, ...]) -> JsonObject:
    content = await read_body(request, _MAX_BODY_BYTES)
    try:
        body = decode_object(content)
    except JsonRefused as error:
        raise _wrong(f"the body: {error}") from error
    _check_names(body, names)
    return body


def _check_names(given: JsonObject, names: tuple[str, ...]) -> None:
    for name in given:
        if name not in names:
            raise _wrong(f"unknown field {name!r}")


def _text(given: JsonObject, name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str):
        raise _wrong(f"field {name!r} must be a text")
    return value


def _integer(given: JsonObject, name: str) -> int:
    value = given.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > LATEST_MS:
        raise _wrong(f"field {name!r} must be an integer in range")
    return value


def _worker(request: Request) -> str:
    """A uid, without anything that the frames to the gateway are parted by."""
    uid: str = request.path_params["uid"]
    if not uid.isascii() or not uid.isprintable() or " " in uid:
        raise ManagementRefused(404, Refusal.UNKNOWN_WORKER.value, "there is no such Worker")
    return uid


def _wrong(message: str) -> ManagementRefused:
    return ManagementRefused(400, "invalid_request", message)
