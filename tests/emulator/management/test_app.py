"""The management routes over ASGI, with a real custody of artifacts."""

import errno

import httpx
import pytest

from host.model.faults import FaultPoints, register
from host.model.json import JsonObject
from host.sqlite import DatabaseFull
from tests.emulator.management.conftest import START_MS, Calls
from tests.emulator.management.test_trigger_routes import Triggers

POINT = register("management.test_point", "between nothing and nothing, for tests")


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer wrong", "Basic secret", "Bearer sécret"])
async def test_without_the_token_nothing_answers(client: httpx.AsyncClient, header: str) -> None:
    answer = await client.get("/v1/clock", headers={b"Authorization": header.encode()})
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "unauthenticated"


async def test_a_rebound_host_name_is_refused_even_with_the_token(client: httpx.AsyncClient) -> None:
    answer = await client.get("/v1/clock", headers={"Host": "evil.example"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (421, "wrong_host")


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), 503, "no_room"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), 503, "no_room"),
        (DatabaseFull("database or disk is full"), 503, "no_room"),
        (OSError(errno.EACCES, "Permission denied"), 500, "internal_error"),
    ],
)
async def test_want_of_room_is_503_and_one_line_and_no_other_failure_is(
    client: httpx.AsyncClient,
    triggers: Triggers,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    status: int,
    code: str,
) -> None:
    async def fail(worker_uid: str) -> list[JsonObject]:
        raise error

    monkeypatch.setattr(triggers, "deliveries", fail)
    answer = await client.get("/v1/workers/w/queue")
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert [(each.getMessage(), each.exc_info) for each in caplog.records if each.name == "takohost.management"] == (
        [(f"GET /v1/workers/w/queue: {error}", None)] if status == 503 else []
    )


async def test_the_clock_is_shown_and_advanced(client: httpx.AsyncClient) -> None:
    shown = (await client.get("/v1/clock")).json()
    assert (shown["mode"], shown["nowMs"], shown["nextDue"]) == ("frozen", START_MS, "2027-01-15T08:00:05.000Z")
    moved = (await client.post("/v1/clock/advance", json={"seconds": 1.5})).json()
    assert moved["now"] == "2027-01-15T08:00:01.500Z"
    assert (await client.post("/v1/clock/thaw")).json()["mode"] == "advanced"
    assert (await client.post("/v1/clock/freeze")).json()["mode"] == "frozen"


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{}",
        "[]",
        "{",
        '{"seconds": 0}',
        '{"seconds": -1}',
        '{"seconds": NaN}',
        '{"seconds": 1e999}',
        '{"seconds": "1"}',
        '{"seconds": true}',
        '{"seconds": 1, "minutes": 1}',
        '{"seconds": 1' + "0" * 400 + "}",
    ],
)
async def test_a_bad_advance_is_a_400_and_moves_nothing(client: httpx.AsyncClient, body: str) -> None:
    answer = await client.post("/v1/clock/advance", content=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request")
    assert (await client.get("/v1/clock")).json()["nowMs"] == START_MS


async def test_an_instance_id_may_be_any_text(client: httpx.AsyncClient) -> None:
    assert (await client.get("/v1/workflows/w/instances")).json()["items"] == [{"id": "a"}, {"id": "b"}, {"id": "c"}]
    shown = (await client.get("/v1/workflows/w/instances/a%2Fb%25%20%F0%9F%90%99")).json()
    assert shown == {"uid": "w", "id": "a/b% \N{OCTOPUS}"}
    assert (await client.get("/v1/workflows/x/instances")).status_code == 404
    assert (await client.get("/v1/workflows/w/instances/a/b")).status_code == 404
    assert (await client.get("/v1/workflows/w/instances/%FF")).status_code == 400


async def test_a_fault_point_is_listed_and_armed(client: httpx.AsyncClient, faults: FaultPoints) -> None:
    names = [item["name"] for item in (await client.get("/v1/faults")).json()["items"]]
    assert POINT in names
    answer = await client.post("/v1/faults", json={"name": POINT, "action": "error"})
    assert answer.json() == {"armed": {"name": POINT, "nth": 1, "action": "error"}}
    shown = {item["name"]: item["armed"] for item in (await client.get("/v1/faults")).json()["items"]}
    assert shown.pop(POINT) == {"action": "error", "nth": 1}
    assert set(shown.values()) <= {None}
    with pytest.raises(RuntimeError, match=POINT):
        faults.reach(POINT)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"name": "no.such"}, 404),
        ({"name": POINT, "nth": 0}, 400),
        ({"name": POINT, "action": "explode"}, 400),
    ],
)
async def test_a_bad_fault_is_refused(client: httpx.AsyncClient, body: JsonObject, status: int) -> None:
    assert (await client.post("/v1/faults", json=body)).status_code == status


async def test_processes_and_unknown_paths_answer_in_json(client: httpx.AsyncClient) -> None:
    shown = (await client.get("/v1/processes")).json()["items"]
    assert shown == [
        {"role": "gateway", "pid": 7, "residentBytes": 1000, "cpuMs": None, "contexts": None, "versionUid": None}
    ]
    assert (await client.get("/v2/clock")).json()["error"]["code"] == "not_found"
    wrong = await client.delete("/v1/clock")
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (405, "method_not_allowed")
    assert (await client.post("/v1/clock/rewind")).status_code == 404


@pytest.mark.req("HA-46")
async def test_settling_needs_a_known_effect_and_an_operation_that_reconciles(client: httpx.AsyncClient) -> None:
    for body, status in (
        ({"effect": "none", "message": "m"}, 409),
        ({"effect": "unknown", "message": "m"}, 400),
        ({"effect": "none"}, 400),
    ):
        assert (await client.post("/v1/operations/op-1/settle", json=body)).status_code == status
    assert (await client.get("/v1/openapi.json")).json() == {"openapi": "3.1.0"}


async def test_a_body_that_is_no_strict_json_is_refused(client: httpx.AsyncClient) -> None:
    for body in (
        b'{"name":"\\ud800"}',
        b'{"name":"a","name":"b"}',
        b'{"name":NaN}',
        b'{"name":"\xff"}',
        b"[]",
        b"[" * 9999,
    ):
        answer = await client.post("/v1/faults", content=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request")


async def test_instances_are_listed_in_pages(client: httpx.AsyncClient) -> None:
    first = (await client.get("/v1/workflows/w/instances?limit=2")).json()
    assert first == {"workflowUid": "w", "items": [{"id": "a"}, {"id": "b"}], "next": "2"}
    second = (await client.get("/v1/workflows/w/instances?limit=2&after=2")).json()
    assert (second["items"], second["next"]) == ([{"id": "c"}], None)
    for wrong in ("limit=0", "limit=1001", "limit=x", "limit=1&limit=2", "after=-1"):
        assert (await client.get(f"/v1/workflows/w/instances?{wrong}")).status_code == 400


async def test_every_operation_on_an_instance_is_there_for_people(client: httpx.AsyncClient, calls: Calls) -> None:
    path = "/v1/workflows/w/instances"
    created = await client.post(
        path, content=b'{"id": "a/b", "params": {"b": 1.0, "a": [1e20, true, null, "\\u00e9"]}}'
    )
    assert (created.status_code, created.json()) == (200, {"id": "a/b"})
    assert (await client.post(path)).json() == {"id": "issued"}
    assert (await client.post(f"{path}/a%2Fb/events", content=b'{"type": "go", "payload": {}}')).json() == {}
    assert (await client.post(f"{path}/a%2Fb/terminate")).json() == {}
    assert calls.made == [
        ("create", "w", "a/b", '{"a":[100000000000000000000,true,null,"é"],"b":1}'),
        ("create", "w", None, None),
        ("send", "w", "a/b", "go", "{}"),
        ("terminate", "w", "a/b"),
    ]


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("x/instances", b"{}", 404, "not_found"),
        ("w/instances", b"[]", 400, "invalid_request"),
        ("w/instances", b'{"id": 1}', 400, "invalid_request"),
        ("w/instances", b'{"id": null}', 400, "invalid_request"),
        ("w/instances", b'{"ID": "a"}', 400, "invalid_request"),
        ("w/instances", b'{"id": "instance_exists"}', 409, "instance_exists"),
        ("w/instances", b'{"id": "invalid_params"}', 422, "invalid_params"),
        ("w/instances", b'{"id": "backend_unavailable"}', 503, "backend_unavailable"),
        ("w/instances", b'{"id": "TypeError"}', 400, "invalid_request"),
        ("w/instances", b'{"params": {"n": 1' + b"0" * 400 + b"}}", 400, "invalid_request"),
        ("w/instances/a/events", b"{}", 400, "invalid_request"),
        ("w/instances/a/restart", b"{}", 404, "not_found"),
        ("w/instances/a/terminate", b'{"now": true}', 400, "invalid_request"),
        ("w/instances", b'{"params": "' + b"x" * 8_400_000 + b'"}', 413, "request_too_large"),
    ],
)
async def test_a_refused_operation_says_what_the_caller_binding_says(
    client: httpx.AsyncClient, path: str, body: bytes, status: int, code: str
) -> None:
    answer = await client.post(f"/v1/workflows/{path}", content=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


async def test_withdrawn_versions_are_listed(client: httpx.AsyncClient) -> None:
    assert (await client.get("/v1/withdrawals")).json() == {"items": [{"versionUid": "v"}]}
