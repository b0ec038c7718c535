"""What is answered to a request that reaches no application. The application's owner gives the words a form."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

_log = logging.getLogger("takohost.front")


@dataclass(frozen=True, slots=True)
class Refusal(Exception):
    """`status` is 400, 408, 431 or 501; `detail` quotes nothing that the client sent."""

    status: int
    detail: str


@dataclass(frozen=True, slots=True)
class RefusalBody:
    """A document and its media type."""

    media_type: str
    content: bytes


RefusalWriter: TypeAlias = Callable[[Refusal], RefusalBody]
"""Writes a refusal in the form of the API behind the front."""

UNREADABLE = "the request is not HTTP/1.1 as this host reads it"
_DETAILS = {431: "the request's head is too large", 501: "this host knows no transfer coding but chunked"}


def refusal_of_status(status: int) -> Refusal:
    """The refusal for a status that the protocol's reader asks for."""
    return Refusal(status, _DETAILS[status]) if status in _DETAILS else Refusal(400, UNREADABLE)


def headers_of(body: RefusalBody) -> list[tuple[bytes, bytes]]:
    """The header fields of a refusal; the connection ends with it."""
    return [
        (b"content-type", body.media_type.encode()),
        (b"content-length", b"%d" % len(body.content)),
        (b"cache-control", b"no-store"),
        (b"connection", b"close"),
    ]


def report(refusal: Refusal, listener: str) -> None:
    """One line of log."""
    _log.warning("%s refused a request with %d: %s", listener, refusal.status, refusal.detail)
