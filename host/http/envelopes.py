"""Turns request bodies and queries into what the engine is asked: every fault of an envelope is 400 (HA-07, HA-08)."""

from collections.abc import Mapping

from host.engine.requests import CreateResource, UpdateResource
from host.model.errors import CallerError, ErrorCode, invalid_request
from host.model.ids import is_identifier
from host.model.json import JsonObject
from host.model.records import ResourceFilter
from host.model.urls import is_https_url

_CREATE = frozenset({"form", "space", "name", "spec"})
_UPDATE = frozenset({"spec"})


def read_create(body: JsonObject) -> CreateResource:
    """HA-32."""
    _check_members(body, _CREATE, optional=frozenset({"privateInputs", "offering"}))
    form_url = _string(body, "form")
    if not is_https_url(form_url):
        raise invalid_request("form is not a Form URL")
    space, name = _identifier(body, "space"), _identifier(body, "name")
    spec = _object(body, "spec")
    _check_private_inputs(body)
    if "offering" in body:
        raise CallerError(ErrorCode.CAPABILITY_REQUIRED, "this host has no offerings")
    return CreateResource(form_url, space, name, spec, body)


def read_update(uid: str, expected_generation: int, body: JsonObject) -> UpdateResource:
    """HA-35."""
    _check_members(body, _UPDATE, optional=frozenset({"privateInputs"}))
    spec = _object(body, "spec")
    _check_private_inputs(body)
    return UpdateResource(uid, expected_generation, spec, body)


def read_form_url(query: Mapping[str, str]) -> str:
    """HA-24."""
    form_url = query.get("form")
    if form_url is None or not is_https_url(form_url):
        raise invalid_request("the query needs exactly one form, a Form URL")
    return form_url


def read_filter(query: Mapping[str, str]) -> ResourceFilter:
    """HA-34."""
    for name in ("space", "name"):
        if name in query and not is_identifier(query[name]):
            raise invalid_request(f"the query's {name} is malformed")
    if "form" in query and not is_https_url(query["form"]):
        raise invalid_request("the query's form is not a Form URL")
    return ResourceFilter(query.get("space"), query.get("name"), query.get("form"))


def read_limit(query: Mapping[str, str], largest: int) -> int | None:
    text = query.get("limit")
    if text is None:
        return None
    is_number = text.isascii() and text.isdigit() and len(text) <= 16 and not text.startswith("0")
    if not is_number or int(text) > largest:
        raise invalid_request(f"the query's limit is not an integer from 1 to {largest}")
    return int(text)


def _check_members(body: JsonObject, required: frozenset[str], optional: frozenset[str]) -> None:
    for name in sorted(required):
        if name not in body:
            raise invalid_request(f"{name} is missing")
    if not body.keys() <= required | optional:
        raise invalid_request("the body has an unknown member")


def _string(body: JsonObject, name: str) -> str:
    value = body[name]
    if not isinstance(value, str):
        raise invalid_request(f"{name} is not a string")
    return value


def _identifier(body: JsonObject, name: str) -> str:
    value = _string(body, name)
    if not is_identifier(value):
        raise invalid_request(f"{name} is malformed")
    return value


def _object(body: JsonObject, name: str) -> JsonObject:
    value = body[name]
    if not isinstance(value, dict):
        raise invalid_request(f"{name} is not an object")
    return value


def _check_private_inputs(body: JsonObject) -> None:
    """Their presence alone, even empty, needs the capability (HA-60)."""
    if "privateInputs" not in body:
        return
    value = body["privateInputs"]
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise invalid_request("privateInputs is not a map of names to strings")
    raise CallerError(ErrorCode.CAPABILITY_REQUIRED, "this host takes no private inputs")
