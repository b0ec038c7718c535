"""Which HTTP status each error code has, and the title that goes with a status (HA-01)."""

from collections.abc import Mapping
from types import MappingProxyType

from host.model.errors import ErrorCode

STATUS_OF: Mapping[ErrorCode, int] = MappingProxyType(
    {
        ErrorCode.INVALID_REQUEST: 400,
        ErrorCode.UNAUTHENTICATED: 401,
        ErrorCode.FORBIDDEN: 403,
        ErrorCode.NOT_FOUND: 404,
        ErrorCode.CAPABILITY_UNAVAILABLE: 404,
        ErrorCode.METHOD_NOT_ALLOWED: 405,
        ErrorCode.NAME_CONFLICT: 409,
        ErrorCode.GENERATION_CONFLICT: 409,
        ErrorCode.RESOURCE_BUSY: 409,
        ErrorCode.DEPENDENCY_CONFLICT: 409,
        ErrorCode.IDEMPOTENCY_CONFLICT: 409,
        ErrorCode.CURSOR_EXPIRED: 409,
        ErrorCode.PRIVATE_INPUTS_CONFLICT: 409,
        ErrorCode.PRIVATE_INPUTS_UNVERIFIABLE: 409,
        ErrorCode.OPERATION_TERMINAL: 409,
        ErrorCode.GONE: 410,
        ErrorCode.REQUEST_TOO_LARGE: 413,
        ErrorCode.UNSUPPORTED_MEDIA_TYPE: 415,
        ErrorCode.INVALID_SPEC: 422,
        ErrorCode.UNSUPPORTED_FORM: 422,
        ErrorCode.CAPABILITY_REQUIRED: 422,
        ErrorCode.EXPECTED_GENERATION_REQUIRED: 428,
        ErrorCode.RATE_LIMITED: 429,
        ErrorCode.INTERNAL_ERROR: 500,
        ErrorCode.TEMPORARILY_UNAVAILABLE: 503,
    }
)

TITLE_OF: Mapping[int, str] = MappingProxyType(
    {
        400: "Bad Request",
        401: "Unauthorized",
        403: "Forbidden",
        404: "Not Found",
        405: "Method Not Allowed",
        409: "Conflict",
        410: "Gone",
        413: "Content Too Large",
        415: "Unsupported Media Type",
        422: "Unprocessable Content",
        428: "Precondition Required",
        429: "Too Many Requests",
        500: "Internal Server Error",
        503: "Service Unavailable",
    }
)

RETRIABLE_STATUSES = frozenset({429, 503})
"""Those that say when to try again, and nothing of whether the request was accepted (HA-14)."""
