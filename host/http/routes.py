"""Which route a raw request path is. Split first, decoded afterwards: an escaped slash never becomes one (A09)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from host.model.ids import is_identifier

ROOT = "/apis/forms.takoform.com/v2"
DISCOVERY_PATH = "/.well-known/takoform/v2"
DOCUMENTATION_PATH = "/documentation"
AUTHENTICATION_PATH = "/documentation/authentication"

_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})|%")


class Route(StrEnum):
    DISCOVERY = "discovery"
    DOCUMENTATION = "documentation"
    AUTHENTICATION = "authentication"
    SUPPORT = "support"
    OFFERINGS = "offerings"
    PREVIEWS = "previews"
    RESOURCES = "resources"
    RESOURCE = "resource"
    OPERATION = "operation"
    PRIVATE_INPUTS = "private-inputs"


PATHS: Mapping[Route, str] = MappingProxyType(
    {
        Route.DISCOVERY: DISCOVERY_PATH,
        Route.DOCUMENTATION: DOCUMENTATION_PATH,
        Route.AUTHENTICATION: AUTHENTICATION_PATH,
        Route.SUPPORT: f"{ROOT}/support",
        Route.OFFERINGS: f"{ROOT}/offerings",
        Route.PREVIEWS: f"{ROOT}/previews",
        Route.RESOURCES: f"{ROOT}/resources",
        Route.RESOURCE: f"{ROOT}/resources/{{identifier}}",
        Route.OPERATION: f"{ROOT}/operations/{{identifier}}",
        Route.PRIVATE_INPUTS: f"{ROOT}/operations/{{identifier}}/private-inputs",
    }
)
"""How each route is written, for people and documents; `find_route` decides."""

METHODS: Mapping[Route, tuple[str, ...]] = MappingProxyType(
    {
        Route.DISCOVERY: ("GET",),
        Route.DOCUMENTATION: ("GET",),
        Route.AUTHENTICATION: ("GET",),
        Route.SUPPORT: ("GET",),
        Route.OFFERINGS: ("GET",),
        Route.PREVIEWS: ("POST",),
        Route.RESOURCES: ("GET", "POST"),
        Route.RESOURCE: ("GET", "PUT", "DELETE"),
        Route.OPERATION: ("GET",),
        Route.PRIVATE_INPUTS: ("PUT",),
    }
)
"""What each route takes; another method is 405 with these in `Allow` (HA-11)."""

OPEN_ROUTES = frozenset({Route.DISCOVERY, Route.DOCUMENTATION, Route.AUTHENTICATION})
"""Routes that need no authentication (HA-20)."""


@dataclass(frozen=True, slots=True)
class Target:
    """`identifier` is the uid or Operation id in the path, empty where the route has none."""

    route: Route
    identifier: str = ""


def find_route(raw_path: bytes) -> Target | None:
    """The route of the path as it was sent, or `None`: no such path (HA-11)."""
    segments = [_decoded(segment) for segment in raw_path.split(b"/")]
    match segments:
        case ["", ".well-known", "takoform", "v2"]:
            return Target(Route.DISCOVERY)
        case ["", "documentation"]:
            return Target(Route.DOCUMENTATION)
        case ["", "documentation", "authentication"]:
            return Target(Route.AUTHENTICATION)
        case ["", "apis", "forms.takoform.com", "v2", *rest]:
            return _api_route(rest)
        case _:
            return None


def _api_route(segments: list[str | None]) -> Target | None:
    match segments:
        case ["support"]:
            return Target(Route.SUPPORT)
        case ["offerings"]:
            return Target(Route.OFFERINGS)
        case ["previews"]:
            return Target(Route.PREVIEWS)
        case ["resources"]:
            return Target(Route.RESOURCES)
        case ["resources", str(uid)] if is_identifier(uid):
            return Target(Route.RESOURCE, uid)
        case ["operations", str(identifier)] if is_identifier(identifier):
            return Target(Route.OPERATION, identifier)
        case ["operations", str(identifier), "private-inputs"] if is_identifier(identifier):
            return Target(Route.PRIVATE_INPUTS, identifier)
        case _:
            return None


def _decoded(segment: bytes) -> str | None:
    """`None` for a segment that is no escaped UTF-8: no route has one."""
    try:
        return unescaped(segment).decode("utf-8")
    except ValueError:
        return None


def unescaped(data: bytes) -> bytes:
    """Percent-decoding, once. Raises `ValueError` for a broken escape."""

    def byte(match: re.Match[bytes]) -> bytes:
        if match[1] is None:
            raise ValueError("a broken percent escape")
        return bytes((int(match[1], 16),))

    return _ESCAPE.sub(byte, data)
