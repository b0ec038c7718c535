"""JSON Schemas of what the Host API takes and gives, and which route takes and gives what. Pure values."""

from collections.abc import Mapping
from dataclasses import dataclass

from host.engine.limits import Limits
from host.http.routes import Route
from host.http.statuses import STATUS_OF
from host.model.errors import ErrorCode, FailureCode
from host.model.ids import IDEMPOTENCY_KEY_PATTERN, IDENTIFIER_PATTERN
from host.model.json import JsonObject, JsonValue
from host.model.operation_states import Action, Effect, Phase, Status
from host.model.private_inputs import InputReason
from host.model.records import LARGEST_INTEGER


@dataclass(frozen=True, slots=True)
class Answer:
    """The body of a 200."""

    schema: str
    media_type: str = "application/json"


_ANSWERS: Mapping[Route, Answer] = {
    Route.DISCOVERY: Answer("Discovery"),
    Route.DOCUMENTATION: Answer("Page", "text/plain"),
    Route.AUTHENTICATION: Answer("Page", "text/plain"),
    Route.SUPPORT: Answer("Support"),
    Route.PREVIEWS: Answer("Preview"),
    Route.RESOURCES: Answer("ResourcePage"),
    Route.RESOURCE: Answer("Resource"),
    Route.OPERATION: Answer("Operation"),
    Route.PRIVATE_INPUTS: Answer("Operation"),
}

_EVERYWHERE = (ErrorCode.INVALID_REQUEST, ErrorCode.INTERNAL_ERROR)
_GUARDED = (ErrorCode.UNAUTHENTICATED, ErrorCode.TEMPORARILY_UNAVAILABLE)
_WITH_BODY = (ErrorCode.REQUEST_TOO_LARGE, ErrorCode.UNSUPPORTED_MEDIA_TYPE)
_MUTATION = (
    ErrorCode.FORBIDDEN,
    ErrorCode.RESOURCE_BUSY,
    ErrorCode.DEPENDENCY_CONFLICT,
    ErrorCode.IDEMPOTENCY_CONFLICT,
    ErrorCode.PRIVATE_INPUTS_UNVERIFIABLE,
    ErrorCode.UNSUPPORTED_FORM,
    ErrorCode.INVALID_SPEC,
    ErrorCode.CAPABILITY_REQUIRED,
    ErrorCode.RATE_LIMITED,
)
_TARGETED = (
    ErrorCode.NOT_FOUND,
    ErrorCode.GONE,
    ErrorCode.GENERATION_CONFLICT,
    ErrorCode.EXPECTED_GENERATION_REQUIRED,
)
_SPECIFIC: Mapping[tuple[Route, str], tuple[ErrorCode, ...]] = {
    (Route.RESOURCES, "GET"): (ErrorCode.CURSOR_EXPIRED,),
    (Route.RESOURCES, "POST"): (*_WITH_BODY, *_MUTATION, ErrorCode.NAME_CONFLICT),
    (Route.RESOURCE, "GET"): (ErrorCode.NOT_FOUND, ErrorCode.GONE),
    (Route.RESOURCE, "PUT"): (*_WITH_BODY, *_MUTATION, *_TARGETED),
    (Route.RESOURCE, "DELETE"): (*_MUTATION, *_TARGETED),
    (Route.OPERATION, "GET"): (ErrorCode.NOT_FOUND,),
    (Route.PREVIEWS, "POST"): (*_WITH_BODY, ErrorCode.FORBIDDEN, ErrorCode.NOT_FOUND, ErrorCode.GONE),
    (Route.PRIVATE_INPUTS, "PUT"): (
        *_WITH_BODY,
        ErrorCode.FORBIDDEN,
        ErrorCode.NOT_FOUND,
        ErrorCode.PRIVATE_INPUTS_CONFLICT,
        ErrorCode.PRIVATE_INPUTS_UNVERIFIABLE,
        ErrorCode.OPERATION_TERMINAL,
    ),
}


def answer_of(route: Route) -> Answer:
    return _ANSWERS[route]


def refusals_of(route: Route, method: str) -> tuple[ErrorCode, ...]:
    """Every code that the route can answer with."""
    is_open = route in (Route.DISCOVERY, Route.DOCUMENTATION, Route.AUTHENTICATION)
    return (*_EVERYWHERE, *(() if is_open else _GUARDED), *_SPECIFIC.get((route, method), ()))


def bodies() -> Mapping[tuple[Route, str], str]:
    """The schema of each request that has a body."""
    return {
        (Route.RESOURCES, "POST"): "Create",
        (Route.RESOURCE, "PUT"): "Update",
        (Route.PREVIEWS, "POST"): "PreviewRequest",
        (Route.PRIVATE_INPUTS, "PUT"): "Replenishment",
    }


_IDENTIFIER: JsonObject = {"type": "string", "pattern": f"^{IDENTIFIER_PATTERN}$"}
_COUNTER: JsonObject = {"type": "integer", "minimum": 0, "maximum": LARGEST_INTEGER}
_FORM_URL: JsonObject = {"type": "string", "pattern": "^https://[^/?#@\\\\ ]+(/[^?#\\\\ ]*)?$"}
_OBJECT: JsonObject = {"type": "object"}
_TIMESTAMP: JsonObject = {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z$"}
_TEXT: JsonObject = {"type": "string"}
_INPUTS: JsonObject = {"type": "object", "additionalProperties": {"type": "string"}}

PARAMETERS: Mapping[str, JsonValue] = {
    "identifier": {"name": "identifier", "in": "path", "required": True, "schema": _IDENTIFIER},
    "key": {
        "name": "Idempotency-Key",
        "in": "header",
        "required": True,
        "schema": {"type": "string", "pattern": f"^{IDEMPOTENCY_KEY_PATTERN}$"},
    },
    "generation": {"name": "Takoform-Expected-Generation", "in": "header", "required": True, "schema": _COUNTER},
    "requiredForm": {"name": "form", "in": "query", "required": True, "schema": _FORM_URL},
    "form": {"name": "form", "in": "query", "schema": _FORM_URL},
    "space": {"name": "space", "in": "query", "schema": _IDENTIFIER},
    "name": {"name": "name", "in": "query", "schema": _IDENTIFIER},
    "limit": {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 1}},
    "cursor": {"name": "cursor", "in": "query", "schema": _TEXT},
}


def parameters_of(route: Route, method: str) -> list[JsonValue]:
    """References to the parameters of a route."""
    names: dict[tuple[Route, str], tuple[str, ...]] = {
        (Route.SUPPORT, "GET"): ("requiredForm",),
        (Route.RESOURCES, "GET"): ("space", "name", "form", "limit", "cursor"),
        (Route.RESOURCES, "POST"): ("key",),
        (Route.RESOURCE, "GET"): ("identifier",),
        (Route.RESOURCE, "PUT"): ("identifier", "key", "generation"),
        (Route.RESOURCE, "DELETE"): ("identifier", "key", "generation"),
        (Route.OPERATION, "GET"): ("identifier",),
        (Route.PRIVATE_INPUTS, "PUT"): ("identifier",),
    }
    return [{"$ref": f"#/components/parameters/{name}"} for name in names.get((route, method), ())]


def _closed(required: Mapping[str, JsonValue], optional: Mapping[str, JsonValue] | None = None) -> JsonObject:
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


def _enum(values: type[Status] | type[Effect] | type[Phase] | type[Action] | type[FailureCode]) -> JsonObject:
    return {"enum": [str(value) for value in values]}


def _constant(value: JsonValue) -> JsonObject:
    return {"const": value}


def schemas(limits: Limits) -> JsonObject:
    """Every schema by name."""
    return {**_requests(), **_records(), **_small(limits)}


def _requests() -> JsonObject:
    create = _closed(
        {"form": _FORM_URL, "space": _IDENTIFIER, "name": _IDENTIFIER, "spec": _OBJECT}, {"privateInputs": _INPUTS}
    )
    update = _closed({"spec": _OBJECT}, {"privateInputs": _INPUTS})
    target: JsonObject = {"uid": _IDENTIFIER, "expectedGeneration": _COUNTER}
    return {
        "Create": create,
        "Update": update,
        "Replenishment": _closed({"privateInputs": _INPUTS}),
        "PreviewRequest": {
            "oneOf": [
                _closed({"action": _constant(Action.CREATE), "input": create}),
                _closed({"action": _constant(Action.UPDATE), **target, "input": update}),
                _closed({"action": _constant(Action.DELETE), **target}),
            ]
        },
    }


def _records() -> JsonObject:
    resource = _closed(
        {
            "uid": _IDENTIFIER,
            "form": _FORM_URL,
            "space": _IDENTIFIER,
            "name": _IDENTIFIER,
            "generation": _COUNTER,
            "observedGeneration": _COUNTER,
            "observedAt": {"anyOf": [_TIMESTAMP, {"type": "null"}]},
            "phase": _enum(Phase),
            "spec": _OBJECT,
            "observed": _OBJECT,
            "output": _OBJECT,
            "lastOperation": _IDENTIFIER,
        }
    )
    required: JsonObject = {"enum": [str(reason) for reason in InputReason]}
    operation = _closed(
        {
            "id": _IDENTIFIER,
            "resourceUid": _IDENTIFIER,
            "action": _enum(Action),
            "generation": _COUNTER,
            "status": _enum(Status),
            "effect": _enum(Effect),
            "createdAt": _TIMESTAMP,
            "updatedAt": _TIMESTAMP,
            "retainUntil": _TIMESTAMP,
        },
        {
            "error": _closed({"code": _enum(FailureCode), "message": _TEXT}),
            "inputRequired": _closed({"names": {"type": "array", "items": _TEXT}, "reason": required}),
        },
    )
    return {"Resource": resource, "Operation": operation}


def _small(limits: Limits) -> JsonObject:
    resource: JsonObject = {"$ref": "#/components/schemas/Resource"}
    items: JsonObject = {"type": "array", "items": resource, "maxItems": limits.max_page_size}
    flag: JsonObject = {"type": "boolean"}
    count: JsonObject = {"type": "integer", "minimum": 1}
    texts: JsonObject = {"type": "array", "items": _TEXT}
    codes: JsonObject = {"enum": [str(code) for code in STATUS_OF]}
    error = _closed({"code": codes, "message": _TEXT})
    return {
        "Page": _TEXT,
        "ResourcePage": _closed({"items": items, "nextCursor": {"type": ["string", "null"]}}),
        "Preview": _closed({"valid": flag, "errors": {"type": "array", "items": error}}),
        "Support": _closed({"form": _FORM_URL, "supported": flag, "operations": texts, "privateInputs": flag}),
        "Discovery": _closed(
            {
                "api": _constant("forms.takoform.com/v2"),
                "baseUrl": _TEXT,
                "documentation": _TEXT,
                "authentication": _closed({"schemes": texts, "documentation": _TEXT}),
                "capabilities": _closed({"offerings": flag, "previews": flag, "privateInputs": flag}),
                "limits": _closed({"maxRequestBytes": count, "maxPageSize": count, "replayWindowSeconds": count}),
            }
        ),
        "Problem": {
            "type": "object",
            "properties": {
                "type": _constant("about:blank"),
                "title": _TEXT,
                "status": {"type": "integer"},
                "code": codes,
                "detail": _TEXT,
                "operationId": _IDENTIFIER,
            },
            "required": ["type", "title", "status", "code"],
        },
    }
