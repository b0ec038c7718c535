"""The wire form of every success answer (HA-20, HA-24, HA-30, HA-34, HA-41). Pure: values in, JSON values out."""

from collections.abc import Sequence

from host.engine.engine import Page, Support
from host.engine.limits import Capabilities, Limits
from host.http.routes import AUTHENTICATION_PATH, DOCUMENTATION_PATH, ROOT
from host.model.errors import HostApiError
from host.model.json import JsonObject
from host.model.records import Operation, Resource
from host.model.time import timestamp

API = "forms.takoform.com/v2"


def discovery(origin: str, schemes: Sequence[str], limits: Limits, offered: Capabilities) -> JsonObject:
    """Connection data only (HA-20); `origin` is `https://host[:port]`."""
    return {
        "api": API,
        "baseUrl": base_url(origin),
        "documentation": origin + DOCUMENTATION_PATH,
        "authentication": {"schemes": list(schemes), "documentation": origin + AUTHENTICATION_PATH},
        "capabilities": capabilities(offered),
        "limits": {
            "maxRequestBytes": limits.max_request_bytes,
            "maxPageSize": limits.max_page_size,
            "replayWindowSeconds": limits.replay_window_s,
        },
    }


def capabilities(offered: Capabilities) -> JsonObject:
    return {"offerings": False, "previews": offered.previews, "privateInputs": offered.private_inputs}


def base_url(origin: str) -> str:
    return origin + ROOT


def operation_url(origin: str, operation: Operation) -> str:
    return f"{base_url(origin)}/operations/{operation.id}"


def support(form_url: str, found: Support) -> JsonObject:
    return {
        "form": form_url,
        "supported": found.is_supported,
        "operations": list(found.actions),
        "privateInputs": found.takes_private_inputs,
    }


def resource(found: Resource) -> JsonObject:
    return {
        "uid": found.uid,
        "form": found.form_url,
        "space": found.space,
        "name": found.name,
        "generation": found.generation,
        "observedGeneration": found.observed_generation,
        "observedAt": None if found.observed_at_ms is None else timestamp(found.observed_at_ms),
        "phase": found.phase,
        "spec": found.spec,
        "observed": found.observed,
        "output": found.output,
        "lastOperation": found.last_operation,
    }


def page(found: Page) -> JsonObject:
    return {"items": [resource(item) for item in found.items], "nextCursor": found.next_cursor}


def preview(refusal: HostApiError | None) -> JsonObject:
    if refusal is None:
        return {"valid": True, "errors": []}
    return {"valid": False, "errors": [{"code": refusal.code, "message": refusal.detail}]}


def operation(found: Operation) -> JsonObject:
    document: JsonObject = {
        "id": found.id,
        "resourceUid": found.resource_uid,
        "action": found.action,
        "generation": found.generation,
        "status": found.status,
        "effect": found.effect,
        "createdAt": timestamp(found.created_at_ms),
        "updatedAt": timestamp(found.updated_at_ms),
        "retainUntil": timestamp(found.retain_until_ms),
    }
    if found.failure is not None:
        document["error"] = {"code": found.failure.code, "message": found.failure.message}
    if found.input_required is not None:
        required = found.input_required
        document["inputRequired"] = {"names": list(required.names), "reason": required.reason}
    return document
