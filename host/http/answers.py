"""Makes responses: JSON documents and problem documents, none of them to be stored (HA-01, HA-10)."""

from collections.abc import Mapping, Sequence

from starlette.responses import Response

from host.http.statuses import RETRIABLE_STATUSES, STATUS_OF, TITLE_OF
from host.model.errors import ErrorCode, HostApiError
from host.model.json import JsonObject, text_of

RETRY_AFTER_S = "1"


def json_response(
    document: JsonObject,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    media_type: str = "application/json",
) -> Response:
    all_headers = {"cache-control": "no-store", **(headers or {})}
    return Response(text_of(document).encode("utf-8"), status, all_headers, media_type)


def text_response(text: str) -> Response:
    """A page for people."""
    return Response(text.encode("utf-8"), 200, {"cache-control": "no-store"}, "text/plain; charset=utf-8")


def problem(error: HostApiError, allowed: Sequence[str], schemes: Sequence[str], http_version: str) -> Response:
    """A problem document; `allowed` are the path's methods, `schemes` those of authentication."""
    status = STATUS_OF[error.code]
    document: JsonObject = {
        "type": "about:blank",
        "title": TITLE_OF[status],
        "status": status,
        "code": error.code,
        "detail": error.detail,
    }
    if error.operation_id is not None:
        document["operationId"] = error.operation_id
    headers = _headers(error.code, allowed, schemes, http_version)
    return json_response(document, status, headers, "application/problem+json")


def _headers(code: ErrorCode, allowed: Sequence[str], schemes: Sequence[str], http_version: str) -> Mapping[str, str]:
    if code is ErrorCode.METHOD_NOT_ALLOWED:
        return {"allow": ", ".join(allowed)}
    if code is ErrorCode.UNAUTHENTICATED:
        return {"www-authenticate": ", ".join(schemes)}
    if STATUS_OF[code] in RETRIABLE_STATUSES:
        return {"retry-after": RETRY_AFTER_S}
    if code is ErrorCode.REQUEST_TOO_LARGE and http_version.startswith("1"):
        return {"connection": "close"}  # the rest of the body stays unread
    return {}
