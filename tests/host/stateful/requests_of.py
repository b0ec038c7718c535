"""Requests made from the OpenAPI document: fitting ones, and fitting ones with one thing spoilt."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, urlencode

from hypothesis import strategies as st

from tests.host.api import form_url
from tests.host.stateful.schema_values import JSON, Document

Draw = Any
_NAMES = st.sampled_from(["a", "b", "c", "d"])
_FORM_URLS = st.sampled_from([form_url("ModuleWorker"), form_url("DurableWorkflow"), "https://elsewhere.example/f/"])


@dataclass(frozen=True)
class Sent:
    """One request; `template` and `method` say which operation of the document it is meant for."""

    template: str
    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    is_spoilt: bool = False

    @property
    def url(self) -> str:
        return self.path + (f"?{self.query}" if self.query else "")


def operations(document: Document) -> list[tuple[str, str, Any]]:
    """(path, METHOD, operation) of every operation."""
    return [
        (path, method.upper(), operation)
        for path, item in document.root["paths"].items()
        for method, operation in item.items()
    ]


@st.composite
def requests(draw: Draw, document: Document, known: tuple[str, ...] = ()) -> Sent:
    """Any operation; `known` are identifiers that may exist."""
    template, method, operation = draw(st.sampled_from(operations(document)))
    identifiers = st.sampled_from(known or ("none",))
    path, query, headers = template, [], {}
    for reference in operation["parameters"]:
        parameter = document.resolved(reference)
        values = document.values(parameter["schema"])
        match parameter["in"]:
            case "path":
                path = path.replace("{identifier}", quote(draw(identifiers | values), safe=""))
            case "header":
                generation = st.integers(1, 3) if parameter["name"].endswith("Generation") else values
                headers[parameter["name"].lower()] = str(draw(generation | values))
            case "query":
                if parameter.get("required") or draw(st.booleans()):
                    query.append((parameter["name"], str(draw(values))))
    body = None
    if "requestBody" in operation:
        headers["content-type"] = "application/json"
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        body = json.dumps(_likely(draw, draw(document.values(schema)))).encode()
    sent = Sent(template, method, path, urlencode(query), headers, body)
    return draw(_spoilt(sent)) if draw(st.integers(0, 3)) == 0 else sent


def _likely(draw: Draw, body: Any) -> Any:
    """Few names and Forms that exist, so that requests meet each other."""
    if draw(st.booleans()) and "name" in body:
        return {**body, "name": draw(_NAMES), "space": "fuzz", "form": draw(_FORM_URLS), "spec": {}}
    if draw(st.booleans()) and "spec" in body:
        return {**body, "spec": {}}
    return body


@st.composite
def _spoilt(draw: Draw, sent: Sent) -> Sent:
    """One thing wrong: a header, the query, the path, the method or the body."""
    what = draw(st.sampled_from(["header", "no header", "query", "path", "method", "body", "bytes"]))
    sent = replace(sent, is_spoilt=True)
    match what:
        case "header" if sent.headers:
            name = draw(st.sampled_from(sorted(sent.headers)))
            text = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=200).map(str.strip)
            return replace(sent, headers={**sent.headers, name: draw(text)})
        case "no header" if sent.headers:
            name = draw(st.sampled_from(sorted(sent.headers)))
            return replace(sent, headers={each: value for each, value in sent.headers.items() if each != name})
        case "query":
            return replace(sent, query=sent.query + "&" + quote(draw(st.text(max_size=20)), safe="=&+%;"))
        case "path":
            return replace(sent, path=sent.path + "/" + quote(draw(st.text(max_size=20)), safe="/%"))
        case "method":
            return replace(
                sent, method=draw(st.sampled_from(["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "X"]))
            )
        case "bytes":
            return replace(sent, body=draw(st.binary(max_size=200)))
        case _:
            return replace(sent, body=json.dumps(draw(JSON)).encode())
