"""The OpenAPI document is complete, closed in itself and says what the host really answers."""

from collections.abc import Iterator
from typing import Any

import pytest

from host.engine.limits import EVERYTHING, Capabilities, Limits
from host.http import openapi
from host.http.routes import METHODS, PATHS, ROOT, Route, find_route
from host.http.statuses import STATUS_OF
from host.model.errors import ErrorCode
from tests.host.api import ORIGIN, Api, Json

DOCUMENT: Any = openapi.document(ORIGIN, ("Bearer",), Limits(), EVERYTHING)


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for each in value.values():
            yield from references(each)
    elif isinstance(value, list):
        for each in value:
            yield from references(each)


def fits(schema: Any, value: Any) -> bool:
    """Whether a record has exactly the members that its schema names."""
    return bool(set(schema["required"]) <= value.keys() <= schema["properties"].keys())


def schema(name: str) -> Any:
    return DOCUMENT["components"]["schemas"][name]


@pytest.mark.req("HA-11")
def test_every_offered_route_and_method_is_described() -> None:
    described = {(path, method.upper()) for path, item in DOCUMENT["paths"].items() for method in item}
    served = {(PATHS[route], method) for route in Route for method in METHODS[route] if route is not Route.OFFERINGS}
    assert described == served
    for route, path in PATHS.items():
        found = find_route(path.replace("{identifier}", "r-1").encode())
        assert found is not None
        assert found.route is route
    off: Any = openapi.document(ORIGIN, ("None",), Limits(), Capabilities(previews=False, private_inputs=False))
    assert f"{ROOT}/previews" not in off["paths"]
    assert off["security"] == []


def test_every_reference_leads_somewhere() -> None:
    for reference in references(DOCUMENT):
        found: Any = DOCUMENT
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]
        assert found


@pytest.mark.req("HA-01", "HA-15")
def test_every_code_is_said_with_its_status() -> None:
    said = set()
    for item in DOCUMENT["paths"].values():
        for operation in item.values():
            for status, answer in operation["responses"].items():
                content = answer["content"].get("application/problem+json")
                for code in content["schema"]["allOf"][1]["properties"]["code"]["enum"] if content else ():
                    assert STATUS_OF[ErrorCode(code)] == int(status)
                    said.add(ErrorCode(code))
    everywhere = {ErrorCode.METHOD_NOT_ALLOWED, ErrorCode.CAPABILITY_UNAVAILABLE}
    assert set(ErrorCode) - said == everywhere, "these belong to no route of the document"


@pytest.mark.req("HA-30", "HA-41", "HA-34", "HA-20", "HA-24")
async def test_real_answers_have_the_members_of_their_schemas(api: Api) -> None:
    operation = (await api.create("ModuleWorker", "w", {})).json()
    answers: list[tuple[str, Json]] = [
        ("Operation", operation),
        ("Resource", await api.resource(operation["resourceUid"])),
        ("ResourcePage", (await api.get("/resources")).json()),
        ("Discovery", (await api.client.get("/.well-known/takoform/v2")).json()),
        ("Support", (await api.get("/support", form="https://a.b/")).json()),
        (
            "Preview",
            (await api.preview({"action": "delete", "uid": operation["resourceUid"], "expectedGeneration": 1})).json(),
        ),
        ("Problem", (await api.get("/resources/none")).json()),
    ]
    for name, answer in answers:
        assert fits(schema(name), answer), name
