"""The words of the Host API for what its HTTP front refuses before a route is known (HA-01). Knows no server.

The closed set of codes has none for a head that is too large (431), a body that comes too slowly (408) or a method that
HTTP has not (501), and HA-16 lets no code of it mean something else: `request_too_large` is a body over the limit,
`rate_limited` and `temporarily_unavailable` leave open whether a request was accepted. These refusals are final, the
request is at fault and nothing was accepted: that is `invalid_request`. The status is HTTP's own word for it.
"""

from host.model.errors import ErrorCode
from host.model.json import JsonObject, text_of

MEDIA_TYPE = "application/problem+json"
_TITLES = {
    400: "Bad Request",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    501: "Not Implemented",
}


def refused_request(status: int, detail: str) -> bytes:
    """A problem document; every refusal below the routes is `invalid_request`, whatever status HTTP gives it."""
    document: JsonObject = {
        "type": "about:blank",
        "title": _TITLES[status],
        "status": status,
        "code": ErrorCode.INVALID_REQUEST,
        "detail": detail,
    }
    return text_of(document).encode("utf-8")
