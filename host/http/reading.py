"""Reads what a request carries besides its path: headers, query and body, each strictly (HA-07 to HA-12, HA-50)."""

import re
from collections.abc import Iterable, Mapping

from starlette.datastructures import Headers
from starlette.requests import Request

from host.http.routes import unescaped
from host.model.errors import CallerError, ErrorCode, invalid_request
from host.model.ids import is_idempotency_key
from host.model.json import JsonObject, JsonRefused, decode_object
from host.model.records import LARGEST_INTEGER

_COUNTER = re.compile(r"0|[1-9][0-9]{0,15}")
_HOST = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_MEDIA_TYPE = re.compile(r'application/json(?:[ \t]*;[ \t]*charset=(?:utf-8|"utf-8"))?[ \t]*', re.IGNORECASE)


def check_host(headers: Headers) -> None:
    """Exactly one well-formed Host (A06)."""
    values = headers.getlist("host")
    if len(values) != 1 or _HOST.fullmatch(values[0]) is None:
        raise invalid_request("the Host header is missing, repeated or malformed")


def read_query(raw: bytes, allowed: Iterable[str] = ()) -> Mapping[str, str]:
    """Query parameters; an unknown or repeated one is refused (HA-07)."""
    found: dict[str, str] = {}
    names = set(allowed)
    for pair in raw.split(b"&") if raw else ():
        name, _, value = pair.partition(b"=")
        key = _query_text(name)
        if key not in names:
            raise invalid_request("the query has an unknown parameter")
        if key in found:
            raise invalid_request(f"the query repeats {key}")
        found[key] = _query_text(value)
    return found


def read_idempotency_key(headers: Headers) -> str:
    value = _single(headers, "idempotency-key")
    if value is None or not is_idempotency_key(value):
        raise invalid_request("the Idempotency-Key header is missing or malformed")
    return value


def read_expected_generation(headers: Headers) -> int:
    value = _single(headers, "takoform-expected-generation")
    if value is None:
        raise CallerError(ErrorCode.EXPECTED_GENERATION_REQUIRED, "the Takoform-Expected-Generation header is missing")
    if _COUNTER.fullmatch(value) is None or int(value) > LARGEST_INTEGER:
        raise invalid_request("the Takoform-Expected-Generation header is not a generation")
    return int(value)


async def read_object(request: Request, max_bytes: int) -> JsonObject:
    """The body as a JSON object (HA-02, HA-09, HA-12)."""
    _check_body_headers(request.headers)
    try:
        return decode_object(await _read_body(request, max_bytes))
    except JsonRefused as error:
        raise invalid_request(f"the body is refused: {error}") from None


async def check_no_body(request: Request) -> None:
    """A DELETE with content is refused (HA-09)."""
    async for chunk in request.stream():
        if chunk:
            raise invalid_request("this request takes no body")


def _check_body_headers(headers: Headers) -> None:
    media_type = _single(headers, "content-type")
    if media_type is None or _MEDIA_TYPE.fullmatch(media_type) is None:
        raise CallerError(ErrorCode.UNSUPPORTED_MEDIA_TYPE, "the body must be application/json in UTF-8")
    coding = _single(headers, "content-encoding")
    if coding is not None and coding.strip().lower() != "identity":
        raise CallerError(ErrorCode.UNSUPPORTED_MEDIA_TYPE, "this host decodes no content coding")


async def _read_body(request: Request, max_bytes: int) -> bytes:
    """Read no further than the limit, whatever the length header says."""
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and (len(announced) > 18 or int(announced) > max_bytes):
        raise _too_large(max_bytes)
    parts: list[bytes] = []
    room = max_bytes
    async for chunk in request.stream():
        room -= len(chunk)
        if room < 0:
            raise _too_large(max_bytes)
        parts.append(chunk)
    return b"".join(parts)


def _too_large(max_bytes: int) -> CallerError:
    return CallerError(ErrorCode.REQUEST_TOO_LARGE, f"the body has more than {max_bytes} bytes")


def _single(headers: Headers, name: str) -> str | None:
    values = headers.getlist(name)
    if len(values) > 1:
        raise invalid_request(f"the {name} header is repeated")
    return values[0] if values else None


def _query_text(data: bytes) -> str:
    try:
        return unescaped(data.replace(b"+", b" ")).decode("utf-8")
    except ValueError:
        raise invalid_request("the query is not escaped UTF-8") from None
