"""The client against hosts that lose answers, lie or fail: scripted, because a right host does none of it."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from emulator.client import (
    MODULE_WORKER,
    Connection,
    HostApi,
    HostUnreachable,
    InvalidDiscovery,
    OperationFailed,
    OutcomeUnknown,
    Patience,
    RequestRefused,
    UnexpectedAnswer,
)

ORIGIN = "https://localhost:4443"
BASE = f"{ORIGIN}/apis/forms.takoform.com/v2"
DISCOVERY: dict[str, Any] = {
    "api": "forms.takoform.com/v2",
    "baseUrl": BASE,
    "documentation": f"{ORIGIN}/docs",
    "authentication": {"schemes": ["None"], "documentation": f"{ORIGIN}/docs"},
    "capabilities": {"offerings": False, "previews": False, "privateInputs": False},
    "limits": {"maxRequestBytes": 1000, "maxPageSize": 10, "replayWindowSeconds": 60},
}
RESOURCE: dict[str, Any] = {
    "uid": "r1",
    "form": MODULE_WORKER,
    "space": "s",
    "name": "n",
    "generation": 1,
    "phase": "idle",
    "spec": {},
    "observed": {},
    "output": {},
}
Handler = Callable[[httpx.Request], httpx.Response]


def operation(status: str, **more: Any) -> httpx.Response:
    body = {"id": "o1", "resourceUid": "r1", "status": status, "effect": "complete", **more}
    return httpx.Response(200 if status in ("succeeded", "failed") else 202, json=body)


class ScriptedHost:
    """Answers discovery, then each request from the script in turn; an exception in it is a lost answer."""

    def __init__(self, *script: httpx.Response | Exception) -> None:
        self.script = iter(script)
        self.requests: list[httpx.Request] = []
        self.elapsed_s = 0.0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/.well-known/takoform/v2":
            return httpx.Response(200, json=DISCOVERY)
        self.requests.append(request)
        answer = next(self.script)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def pause(self, seconds: float) -> None:
        self.elapsed_s += seconds

    def api(self, deadline_s: float = 1.0) -> HostApi:
        connection = Connection(ORIGIN, transport=httpx.MockTransport(self))
        return HostApi(connection, Patience(deadline_s, lambda: self.elapsed_s, self.pause))


@pytest.mark.req("HA-90", "HA-93")
def test_a_lost_answer_is_asked_for_again_with_the_same_key_and_bytes() -> None:
    host = ScriptedHost(
        httpx.ReadError("lost"),
        httpx.Response(503, headers={"Retry-After": "1"}),
        operation("running"),
        operation("succeeded"),
        httpx.Response(200, json=RESOURCE),
    )
    assert host.api().create(MODULE_WORKER, "s", "n", {}).uid == "r1"
    first, second, third = host.requests[:3]
    assert first.headers["Idempotency-Key"] == second.headers["Idempotency-Key"] == third.headers["Idempotency-Key"]
    assert first.content == second.content == third.content
    assert str(first.url) == f"{BASE}/resources"
    assert [str(request.url) for request in host.requests[3:]] == [f"{BASE}/operations/o1", f"{BASE}/resources/r1"]


@pytest.mark.req("HA-93")
def test_every_intent_has_a_key_of_its_own() -> None:
    answers = [operation("succeeded"), httpx.Response(200, json=RESOURCE)] * 2
    host = ScriptedHost(*answers)
    api = host.api()
    api.create(MODULE_WORKER, "s", "n", {})
    api.create(MODULE_WORKER, "s", "n", {})
    assert host.requests[0].headers["Idempotency-Key"] != host.requests[2].headers["Idempotency-Key"]


@pytest.mark.req("HA-93")
def test_an_outcome_that_stays_open_is_given_up_as_unknown() -> None:
    host = ScriptedHost(*[httpx.ConnectError("refused")] * 100)
    with pytest.raises(OutcomeUnknown, match="refused"):
        host.api(deadline_s=1.0).create(MODULE_WORKER, "s", "n", {})
    assert len({request.headers["Idempotency-Key"] for request in host.requests}) == 1


def test_a_failed_operation_tells_code_and_effect() -> None:
    error = {"code": "internal_error", "message": "no such class"}
    host = ScriptedHost(operation("failed", effect="none", error=error))
    with pytest.raises(OperationFailed, match="no such class") as failure:
        host.api().create(MODULE_WORKER, "s", "n", {})
    assert (failure.value.code, failure.value.effect) == ("internal_error", "none")


@pytest.mark.req("HA-92")
def test_an_unknown_status_is_no_success() -> None:
    host = ScriptedHost(operation("fulfilled"))
    with pytest.raises(UnexpectedAnswer):
        host.api().create(MODULE_WORKER, "s", "n", {})


@pytest.mark.req("HA-91")
def test_a_redirect_is_not_followed() -> None:
    host = ScriptedHost(httpx.Response(307, headers={"Location": "https://elsewhere.example/"}))
    with pytest.raises(UnexpectedAnswer, match="307"):
        host.api().create(MODULE_WORKER, "s", "n", {})
    assert len(host.requests) == 1


def test_a_problem_is_told_with_its_code() -> None:
    problem = {"type": "about:blank", "title": "Conflict", "status": 409, "code": "name_conflict", "detail": "taken"}
    host = ScriptedHost(httpx.Response(409, json=problem))
    with pytest.raises(RequestRefused, match="409 name_conflict: taken"):
        host.api().create(MODULE_WORKER, "s", "n", {})


@pytest.mark.req("HA-35", "HA-36")
def test_update_and_delete_expect_the_generation_that_was_seen() -> None:
    host = ScriptedHost(httpx.Response(200, json=RESOURCE), operation("succeeded"))
    api = host.api()
    api.delete(api.read("r1"))
    deletion = host.requests[1]
    assert (deletion.method, deletion.content) == ("DELETE", b"")
    assert deletion.headers["Takoform-Expected-Generation"] == "1"
    assert "Content-Type" not in deletion.headers


def damaged() -> Iterator[dict[str, Any]]:
    yield {"api": "forms.takoform.com/v3"}
    for url in (f"{BASE}/", "http://localhost:4443/x", "https://other:4443/x", f"{BASE}?a", None):
        yield {"baseUrl": url}
    yield {"authentication": {"schemes": []}}
    yield {"capabilities": {"previews": "no"}}
    yield {"limits": {"maxRequestBytes": 1, "replayWindowSeconds": 0}}


@pytest.mark.req("HA-90")
@pytest.mark.parametrize("damage", [*damaged()], ids=json.dumps)
def test_an_invalid_discovery_document_stops_the_client(damage: dict[str, Any]) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={**DISCOVERY, **damage})

    connection = Connection(ORIGIN, transport=httpx.MockTransport(answer))
    with pytest.raises(InvalidDiscovery):
        HostApi(connection, Patience(1, lambda: 0, lambda _: None))


def test_connect_to_moves_the_connection_and_nothing_else() -> None:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json={})

    transport = httpx.MockTransport(answer)
    name = "orders.workers.localhost"
    Connection(f"https://{name}", connect_to="127.0.0.1:8443", transport=transport).send("GET", "/x")
    assert str(seen[0].url) == "https://127.0.0.1:8443/x"
    assert seen[0].headers["Host"] == name
    assert seen[0].extensions["sni_hostname"] == name


def test_a_host_that_is_not_there_is_unreachable() -> None:
    with pytest.raises(HostUnreachable):
        Connection("http://127.0.0.1:1").send("GET", "/")
