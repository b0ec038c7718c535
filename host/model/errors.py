"""The error tree of the Host API: a closed set of codes, and classes that say whose fault it is.

What a client may read (`detail`) and what only the log may hold (`log`) are separate fields (HA-13). Knows no HTTP.
"""

from enum import StrEnum


class ErrorCode(StrEnum):
    """Every `code` that a problem document can carry."""

    INVALID_REQUEST = "invalid_request"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    GONE = "gone"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    REQUEST_TOO_LARGE = "request_too_large"
    NAME_CONFLICT = "name_conflict"
    GENERATION_CONFLICT = "generation_conflict"
    RESOURCE_BUSY = "resource_busy"
    DEPENDENCY_CONFLICT = "dependency_conflict"
    IDEMPOTENCY_CONFLICT = "idempotency_conflict"
    EXPECTED_GENERATION_REQUIRED = "expected_generation_required"
    INVALID_SPEC = "invalid_spec"
    UNSUPPORTED_FORM = "unsupported_form"
    CAPABILITY_REQUIRED = "capability_required"
    CAPABILITY_UNAVAILABLE = "capability_unavailable"
    CURSOR_EXPIRED = "cursor_expired"
    PRIVATE_INPUTS_CONFLICT = "private_inputs_conflict"
    PRIVATE_INPUTS_UNVERIFIABLE = "private_inputs_unverifiable"
    OPERATION_TERMINAL = "operation_terminal"
    RATE_LIMITED = "rate_limited"
    TEMPORARILY_UNAVAILABLE = "temporarily_unavailable"
    INTERNAL_ERROR = "internal_error"


class HostApiError(Exception):
    """A request that gets no success answer.

    `detail` is for the client and holds no secret; `operation_id` only names an accepted Operation that the caller
    may see (HA-01); `log` is for the operator alone.
    """

    def __init__(
        self, code: ErrorCode, detail: str, *, operation_id: str | None = None, log: str | None = None
    ) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
        self.operation_id = operation_id
        self.log = log


class CallerError(HostApiError):
    """The request cannot be done as it stands, or not by this caller."""


class HostError(HostApiError):
    """The host failed or cannot serve now; the request may be right."""


class RuntimeFault(HostApiError):
    """The backend that runs or holds things cannot be asked now; the request may be right."""


def invalid_request(detail: str) -> CallerError:
    return CallerError(ErrorCode.INVALID_REQUEST, detail)


def invalid_spec(detail: str) -> CallerError:
    return CallerError(ErrorCode.INVALID_SPEC, detail)


def not_found(what: str) -> CallerError:
    return CallerError(ErrorCode.NOT_FOUND, f"there is no such {what}")


def gone(what: str) -> CallerError:
    return CallerError(ErrorCode.GONE, f"the {what} was deleted")


def forbidden(detail: str) -> CallerError:
    return CallerError(ErrorCode.FORBIDDEN, detail)


def capability_required(detail: str) -> CallerError:
    return CallerError(ErrorCode.CAPABILITY_REQUIRED, detail)


def private_inputs_unverifiable(operation_id: str) -> CallerError:
    """The material to compare is lost (HA-65)."""
    detail = "the host cannot compare the private inputs with the original ones"
    return CallerError(ErrorCode.PRIVATE_INPUTS_UNVERIFIABLE, detail, operation_id=operation_id)


def dependency_conflict(detail: str) -> CallerError:
    return CallerError(ErrorCode.DEPENDENCY_CONFLICT, detail)


class FailureCode(StrEnum):
    """Why an accepted Operation failed or cannot be decided: the Forms' own reasons (HA-15)."""

    ARTIFACT_REFUSED = "artifact_refused"
    MANIFEST_INVALID = "manifest_invalid"
    CODE_REJECTED = "code_rejected"
    DEPENDENCY_UNFIT = "dependency_unfit"
    PRIVATE_INPUTS_LOST = "private_inputs_lost"
    SETTLED_BY_OPERATOR = "settled_by_operator"
    BACKEND_FAILED = "backend_failed"
    BACKEND_UNAVAILABLE = "backend_unavailable"
    INTERNAL_ERROR = "internal_error"
