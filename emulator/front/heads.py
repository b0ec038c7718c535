"""Which request heads a front takes. Pure: looks at what h11 has parsed, answers nothing."""

import re

import h11

from emulator.front.limits import FrontLimits
from emulator.front.refusals import Refusal

_METHOD = re.compile(rb"[A-Z]{1,32}")
_VERSIONS = (b"1.0", b"1.1")


def check_head(request: h11.Request, limits: FrontLimits) -> None:
    """Raise `Refusal` for a head that is too large, ambiguous in its framing or not meant for an origin server."""
    _check_size(request, limits)
    if request.http_version not in _VERSIONS:
        raise Refusal(400, "this host speaks HTTP/1.1")
    if _METHOD.fullmatch(request.method) is None or request.method == b"CONNECT":
        raise Refusal(501, "this host knows no such method; methods are upper-case words")
    if not request.target.startswith(b"/"):
        raise Refusal(400, "the request target is not a path")
    _check_framing(request)


def _check_size(request: h11.Request, limits: FrontLimits) -> None:
    fields = request.headers
    size = len(request.method) + len(request.target) + sum(len(name) + len(value) + 4 for name, value in fields)
    if size > limits.head_bytes or len(fields) > limits.head_fields:
        raise Refusal(431, "the request's head is too large")


def _check_framing(request: h11.Request) -> None:
    """A body has one length, told one way; a second protocol is not spoken."""
    names = [name for name, _ in request.headers]
    if b"transfer-encoding" in names:
        if b"content-length" in names:
            raise Refusal(400, "the request has both Content-Length and Transfer-Encoding")
        if request.http_version == b"1.0":
            raise Refusal(400, "an HTTP/1.0 request has Transfer-Encoding")
    if any(name == b"upgrade" and value.strip().lower() == b"websocket" for name, value in request.headers):
        raise Refusal(400, "this host speaks no WebSocket here")
