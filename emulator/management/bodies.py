"""Reads the small JSON objects that management requests carry. Knows no route."""

from collections.abc import Mapping

from starlette.requests import Request

from emulator.management.errors import ManagementRefused
from host.model.json import JsonObject, JsonRefused, decode_object

_MAX_BODY_BYTES = 64 * 1024


async def read_body(request: Request, max_bytes: int) -> bytes:
    """The whole body. Raises `ManagementRefused` 413 when it is larger."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > max_bytes:
            raise ManagementRefused(413, "request_too_large", f"the body is larger than {max_bytes // 1024} KiB")
    return bytes(body)


async def read_object(request: Request, fields: Mapping[str, tuple[type, ...]]) -> JsonObject:
    """The body as a closed object of `fields` (name -> accepted types); an empty body is `{}`.

    Raises `ManagementRefused` 400 for anything else, 413 over 64 KiB.
    """
    body = await read_body(request, _MAX_BODY_BYTES)
    if not body:
        return {}
    try:
        value = decode_object(bytes(body))
    except JsonRefused as error:
        raise ManagementRefused(400, "invalid_request", f"the body is refused: {error}") from error
    for name, member in value.items():
        if name not in fields:
            raise ManagementRefused(400, "invalid_request", f"unknown field {name!r}")
        if isinstance(member, bool) or not isinstance(member, fields[name]):
            raise ManagementRefused(400, "invalid_request", f"field {name!r} has the wrong type")
    return value


def require(body: JsonObject, name: str) -> object:
    """A field that must be there."""
    if name not in body:
        raise ManagementRefused(400, "invalid_request", f"field {name!r} is missing")
    return body[name]
