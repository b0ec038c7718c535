"""What the management listener refuses: a status, a stable code and a sentence. Knows no route."""

import logging

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from host.model.room import NO_ROOM, lacks_room

_LOG = logging.getLogger("takohost.management")


class ManagementRefused(Exception):
    """Answered as `{"error": {"code", "message"}}` with `status`."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


def refusal(status: int, code: str, message: str) -> JSONResponse:
    """The one shape of an error answer."""
    return JSONResponse({"error": {"code": code, "message": message}}, status)


async def answer_refused(request: Request, error: Exception) -> Response:
    """Starlette's handler for `ManagementRefused`."""
    assert isinstance(error, ManagementRefused)
    return refusal(error.status, error.code, error.message)


async def answer_no_room(request: Request, error: Exception) -> Response:
    """Starlette's handler for `NoRoom` and `OSError`: a full disk is no failure of the host, and one line of log."""
    if not lacks_room(error):
        raise error
    _LOG.warning("%s %s: %s", request.method, request.url.path, error)
    return refusal(503, "no_room", f"{NO_ROOM}: try again once there is room")


async def answer_http_error(request: Request, error: Exception) -> Response:
    """Starlette's handler for its own 404 and 405."""
    status: int = getattr(error, "status_code", 500)
    headers: dict[str, str] = getattr(error, "headers", None) or {}
    codes = {404: ("not_found", f"there is no {request.url.path} here"), 405: ("method_not_allowed", "wrong method")}
    response = refusal(status, *codes.get(status, ("http_error", "refused")))
    response.headers.update(headers)
    return response


async def answer_failure(request: Request, error: Exception) -> Response:
    """Starlette's handler for everything else; the log has the details."""
    return refusal(500, "internal_error", f"{type(error).__name__}: see the host's log")
