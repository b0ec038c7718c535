"""Turns request bodies and queries into what the engine is asked: every fault of an envelope is 400 (HA-07, HA-08)."""

from collections.abc import Mapping

from host.engine.requests import CreateResource, DeleteResource, Mutation, UpdateResource
from host.model.errors import capability_required, invalid_request
from host.model.ids import IDENTIFIER_RULE, is_identifier
from host.model.json import JsonObject
from host.model.operation_states import Action
from host.model.private_inputs import PrivateInputs
from host.model.records import LARGEST_INTEGER, ResourceFilter
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
    inputs = _private_inputs(body)
    if "offering" in body:
        raise capability_required("this host has no offerings")
    return CreateResource(form_url, space, name, spec, _without_values(body), inputs)


def read_update(uid: str, expected_generation: int, body: JsonObject) -> UpdateResource:
    """HA-35."""
    _check_members(body, _UPDATE, optional=frozenset({"privateInputs"}))
    spec = _object(body, "spec")
    return UpdateResource(uid, expected_generation, spec, _without_values(body), _private_inputs(body))


def read_replenishment(body: JsonObject) -> PrivateInputs:
    """HA-62."""
    _check_members(body, frozenset({"privateInputs"}), optional=frozenset())
    inputs = _private_inputs(body)
    assert inputs is not None, "the member is there"
    return inputs


def read_preview(body: JsonObject) -> Mutation:
    """HA-70: the mutation that is previewed."""
    action = body.get("action")
    if action == Action.CREATE:
        _check_members(body, frozenset({"action", "input"}), optional=frozenset())
        return read_create(_object(body, "input"))
    if action == Action.UPDATE:
        _check_members(body, frozenset({"action", "uid", "expectedGeneration", "input"}), optional=frozenset())
        return read_update(_identifier(body, "uid"), _counter(body, "expectedGeneration"), _object(body, "input"))
    if action == Action.DELETE:
        _check_members(body, frozenset({"action", "uid", "expectedGeneration"}), optional=frozenset())
        return DeleteResource(_identifier(body, "uid"), _counter(body, "expectedGeneration"))
    raise invalid_request("action is none of create, update, delete")


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
            raise invalid_request(f"the query's {name} is not {IDENTIFIER_RULE}")
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
        raise invalid_request(f"{name} is not {IDENTIFIER_RULE}")
    return value


def _object(body: JsonObject, name: str) -> JsonObject:
    value = body[name]
    if not isinstance(value, dict):
        raise invalid_request(f"{name} is not an object")
    return value


def _counter(body: JsonObject, name: str) -> int:
    value = body[name]
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST_INTEGER:
        raise invalid_request(f"{name} is not an integer from 0 to {LARGEST_INTEGER}")
    return value


def _private_inputs(body: JsonObject) -> PrivateInputs | None:
    """`None` when the member is absent, which is not an empty map (HA-60)."""
    if "privateInputs" not in body:
        return None
    value = body["privateInputs"]
    if not isinstance(value, dict):
        raise invalid_request("privateInputs is not a map of names to strings")
    values = {name: each for name, each in value.items() if isinstance(each, str)}
    if len(values) != len(value):
        raise invalid_request("privateInputs is not a map of names to strings")
    return PrivateInputs(values)


def _without_values(body: JsonObject) -> JsonObject:
    """What of an envelope may be kept and compared in the open (HA-61)."""
    return {name: value for name, value in body.items() if name != "privateInputs"}
