"""The OpenAPI 3.1 document of the Host API, made of the tables that the code itself goes by. Serves nothing.

Routes and methods come from `host.http.routes`, statuses and codes from `host.http.statuses`, enumerations from the
model; schemas of bodies lie in `host.http.schemas`.
"""

from collections.abc import Iterable

from host.engine.limits import Capabilities, Limits
from host.http.routes import METHODS, OPEN_ROUTES, PATHS, ROOT, Route
from host.http.schemas import PARAMETERS, Answer, answer_of, bodies, parameters_of, refusals_of, schemas
from host.http.statuses import RETRIABLE_STATUSES, STATUS_OF, TITLE_OF
from host.model.errors import ErrorCode
from host.model.json import JsonObject, JsonValue

_RETRY_AFTER: JsonObject = {"required": True, "schema": {"type": "integer", "minimum": 1}}


def document(origin: str, schemes: Iterable[str], limits: Limits, offered: Capabilities) -> JsonObject:
    """`origin` is `https://host[:port]`; a route that the host does not offer is left out."""
    paths: JsonObject = {}
    for route, path in PATHS.items():
        if _is_offered(route, offered):
            paths[path] = {method.lower(): _operation(route, method) for method in METHODS[route]}
    security: JsonObject = {"bearer": {"type": "http", "scheme": "bearer"}} if "Bearer" in schemes else {}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Takoform Host API", "version": "2", "description": "As this host serves it."},
        "servers": [{"url": origin}],
        "security": [{name: []} for name in security],
        "paths": paths,
        "components": {
            "schemas": schemas(limits),
            "parameters": dict(PARAMETERS),
            "securitySchemes": security,
        },
    }


def _is_offered(route: Route, offered: Capabilities) -> bool:
    match route:
        case Route.OFFERINGS:
            return False
        case Route.PREVIEWS:
            return offered.previews
        case Route.PRIVATE_INPUTS:
            return offered.private_inputs
        case _:
            return True


def _operation(route: Route, method: str) -> JsonObject:
    answer = answer_of(route)
    operation: JsonObject = {
        "operationId": f"{method.lower()}-{route}",
        "parameters": parameters_of(route, method),
        "responses": _responses(route, method, answer),
    }
    if route in OPEN_ROUTES:
        operation["security"] = []
    body = bodies().get((route, method))
    if body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": _named(body)}}}
    return operation


def _responses(route: Route, method: str, answer: Answer) -> JsonObject:
    content: JsonObject = {answer.media_type: {"schema": _named(answer.schema)}}
    headers: JsonObject = {"Cache-Control": {"schema": {"const": "no-store"}}}
    is_mutation = route in (Route.RESOURCES, Route.RESOURCE) and method != "GET"
    if is_mutation:
        content = {"application/json": {"schema": _named("Operation")}}
        headers["Location"] = {"required": True, "schema": {"type": "string", "pattern": f"^https://[^/]+{ROOT}/"}}
    found: JsonObject = {"200": {"description": "done", "headers": headers, "content": content}}
    if is_mutation:
        later: JsonObject = {**headers, "Retry-After": _RETRY_AFTER}
        found["202"] = {"description": "accepted, not settled yet", "headers": later, "content": content}
    for status, codes in _refusals(route, method):
        found[str(status)] = _refusal(status, codes)
    return found


def _refusals(route: Route, method: str) -> list[tuple[int, list[ErrorCode]]]:
    """Statuses in order, with the codes that this route can give."""
    by_status: dict[int, list[ErrorCode]] = {}
    for code in refusals_of(route, method):
        by_status.setdefault(STATUS_OF[code], []).append(code)
    return sorted(by_status.items())


def _refusal(status: int, codes: list[ErrorCode]) -> JsonObject:
    values: list[JsonValue] = list(codes)
    schema: JsonObject = {
        "allOf": [_named("Problem"), {"properties": {"status": {"const": status}, "code": {"enum": values}}}]
    }
    found: JsonObject = {"description": TITLE_OF[status], "content": {"application/problem+json": {"schema": schema}}}
    if status in RETRIABLE_STATUSES:
        found["headers"] = {"Retry-After": _RETRY_AFTER}
    return found


def _named(name: str) -> JsonObject:
    return {"$ref": f"#/components/schemas/{name}"}
