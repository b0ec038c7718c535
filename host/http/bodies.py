"""Reads the bodies of requests strictly, and large ones beside the event loop (HA-02, HA-09, HA-12).

A megabyte of JSON may hold half a million values. Reading and comparing them is a matter of a few hundred milliseconds
of one thread, in which the loop goes on with other requests. Knows no envelope.
"""

import asyncio
import gc
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from starlette.datastructures import Headers
from starlette.requests import Request

from host.http.reading import single_header
from host.model.errors import CallerError, ErrorCode, invalid_request
from host.model.json import JsonObject, JsonRefused, decode_object

T = TypeVar("T")

LARGEST_INLINE_BYTES = 16 * 1024
"""A body up to this size costs less than the way to another thread and back may take."""

_MEDIA_TYPE = re.compile(r'application/json(?:[ \t]*;[ \t]*charset=(?:utf-8|"utf-8"))?[ \t]*', re.IGNORECASE)


class BodyReader:
    """Reads bodies of at most `max_bytes`; large ones one at a time, so that they share one processor's time."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._aside = ThreadPoolExecutor(1, "large-body")

    async def read(self, request: Request, make: Callable[[JsonObject], T]) -> T:
        """What `make` makes of the body, a JSON object; what it raises is raised here."""
        _check_headers(request.headers)
        data = await _read(request, self._max_bytes)
        if len(data) <= LARGEST_INLINE_BYTES:
            return make(_object(data))
        return await asyncio.get_running_loop().run_in_executor(self._aside, _make_undisturbed, data, make)


async def check_no_body(request: Request) -> None:
    """A DELETE with content is refused (HA-09)."""
    async for chunk in request.stream():
        if chunk:
            raise invalid_request("this request takes no body")


def _make_undisturbed(data: bytes, make: Callable[[JsonObject], T]) -> T:
    with _no_collection():
        return make(_object(data))


@contextmanager
def _no_collection() -> Iterator[None]:
    """JSON has no cycles: to look for them again and again while it grows takes longer than to read it."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _object(data: bytes) -> JsonObject:
    try:
        return decode_object(data)
    except JsonRefused as error:
        raise invalid_request(f"the body is refused: {error}") from None


def _check_headers(headers: Headers) -> None:
    media_type = single_header(headers, "content-type")
    if media_type is None or _MEDIA_TYPE.fullmatch(media_type) is None:
        raise CallerError(ErrorCode.UNSUPPORTED_MEDIA_TYPE, "the body must be application/json in UTF-8")
    coding = single_header(headers, "content-encoding")
    if coding is not None and coding.strip().lower() != "identity":
        raise CallerError(ErrorCode.UNSUPPORTED_MEDIA_TYPE, "this host decodes no content coding")


async def _read(request: Request, max_bytes: int) -> bytes:
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
