"""Reads a host's discovery document and stops at anything wrong in it (HA-20, HA-90). Knows no route."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from emulator.client.connection import Connection, json_object
from emulator.client.errors import InvalidDiscovery, UnexpectedAnswer

API = "forms.takoform.com/v2"
DISCOVERY_PATH = "/.well-known/takoform/v2"


@dataclass(frozen=True, slots=True)
class Discovery:
    """What a client needs of the document."""

    base_url: str
    schemes: tuple[str, ...]
    replay_window_s: int
    max_request_bytes: int


def discover(connection: Connection) -> Discovery:
    """Fetch and check. Raises `InvalidDiscovery`, `HostUnreachable`."""
    response = connection.send("GET", DISCOVERY_PATH)
    if response.status_code != 200:
        raise InvalidDiscovery(f"discovery answered {response.status_code}")
    try:
        return read_discovery(json_object(response), connection.origin)
    except UnexpectedAnswer as error:
        raise InvalidDiscovery(str(error)) from error


def read_discovery(document: dict[str, Any], origin: str) -> Discovery:
    """Check a document fetched from `origin`. Raises `InvalidDiscovery` that names the fault."""
    if document.get("api") != API:
        raise InvalidDiscovery(f"discovery: api is {document.get('api')!r}, not {API!r}")
    limits = _member(document, "limits")
    schemes = _member(document, "authentication").get("schemes")
    if not isinstance(schemes, list) or not schemes or not all(isinstance(s, str) and s for s in schemes):
        raise InvalidDiscovery("discovery: authentication.schemes must be a non-empty array of names")
    if not all(isinstance(value, bool) for value in _member(document, "capabilities").values()):
        raise InvalidDiscovery("discovery: capabilities must be booleans")
    return Discovery(
        base_url=_base_url(document.get("baseUrl"), origin),
        schemes=tuple(schemes),
        replay_window_s=_positive(limits, "replayWindowSeconds"),
        max_request_bytes=_positive(limits, "maxRequestBytes"),
    )


def _base_url(value: object, origin: str) -> str:
    if not isinstance(value, str):
        raise InvalidDiscovery("discovery: baseUrl is missing")
    parts = urlsplit(value)
    if parts.scheme != "https" or f"{parts.scheme}://{parts.netloc}" != origin:
        raise InvalidDiscovery(f"discovery: baseUrl {value!r} is not https on {origin}")
    if parts.username is not None or value.endswith("/") or "?" in value or "#" in value:
        raise InvalidDiscovery(f"discovery: baseUrl {value!r} must have no userinfo, query, fragment or last slash")
    return value


def _member(document: dict[str, Any], name: str) -> dict[str, Any]:
    value = document.get(name)
    if not isinstance(value, dict):
        raise InvalidDiscovery(f"discovery: {name} must be an object")
    return value


def _positive(limits: dict[str, Any], name: str) -> int:
    value = limits.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidDiscovery(f"discovery: limits.{name} must be a positive integer")
    return value
