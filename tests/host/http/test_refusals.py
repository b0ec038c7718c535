"""Requests that are refused before effects, and the exact answer each gets."""

from pathlib import Path
from typing import Any

import pytest

from host.engine.limits import Capabilities
from host.http.routes import ROOT
from tests.host.api import Api, form_url, ref, running_api
from tests.host.backend import FakeBackend

KEY = "key-abcdefghijklmnop"


def body(**changes: Any) -> dict[str, Any]:
    return {"form": form_url("ModuleWorker"), "space": "s", "name": "w", "spec": {}, **changes}


async def post(api: Api, content: bytes | str, **headers: str) -> tuple[int, str]:
    sent = {"content-type": "application/json", "idempotency-key": KEY, **headers}
    answer = await api.client.post(f"{ROOT}/resources", content=content, headers=sent)
    assert answer.headers["content-type"] == "application/problem+json" or answer.status_code < 300, answer.text
    return answer.status_code, answer.json().get("code", "")


async def assert_nothing_happened(api: Api) -> None:
    assert (await api.get("/resources")).json()["items"] == []
    assert not api.backend.calls


@pytest.mark.req("HA-02")
@pytest.mark.parametrize(
    "spec",
    [
        b"NaN",
        b"-Infinity",
        b"1e400",
        b"1" * 4301,
        b'["x", ' + b"9" * 4301 + b"]",
        b'{"a":1,"\\u0061":1}',
        b'{"a":{"b":1,"b":1}}',
        b'"\\ud800"',
        b'{"\\udc00":1}',
        b"[" * 20000,
        b"[" * 20000 + b"]" * 20000,
        b'"\xff"',
        b'"\xe2\x82',
        b"'x'",
        b"01",
    ],
)
async def test_a_body_that_is_not_strict_json_is_a_bad_request(api: Api, spec: bytes) -> None:
    start = f'{{"form":"{form_url("ModuleWorker")}","space":"s","name":"w","spec":'.encode()
    assert await post(api, start + spec + b"}") == (400, "invalid_request")
    await assert_nothing_happened(api)


@pytest.mark.req("HA-04", "HA-06", "HA-07", "HA-08")
@pytest.mark.parametrize(
    "changes",
    [
        {"extra": 1},
        {"name": None},
        {"name": 1},
        {"name": ""},
        {"name": "a/b"},
        {"name": "a%2Fb"},
        {"name": "a\u0000"},
        {"name": "a\n"},
        {"name": "n" * 129},
        {"space": "-s"},
        {"spec": None},
        {"spec": []},
        {"form": "http://edge.forms.takoform.com/forms/ModuleWorker/0.3.0/"},
        {"form": form_url("ModuleWorker") + "?"},
        {"form": "https://@edge.forms.takoform.com/"},
        {"form": "https:///x"},
        {"privateInputs": {"A": 1}},
        {"privateInputs": None},
    ],
)
async def test_a_faulty_envelope_is_a_bad_request(api: Api, changes: dict[str, Any]) -> None:
    import json

    assert await post(api, json.dumps(body(**changes))) == (400, "invalid_request")
    await assert_nothing_happened(api)


@pytest.mark.req("HA-25", "HA-32", "HA-60")
@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"form": "https://example.com/forms/Other/1/"}, "unsupported_form"),
        ({"form": form_url("ModuleWorker").rstrip("/")}, "unsupported_form"),
        ({"spec": {"a": 1}}, "invalid_spec"),
        ({"privateInputs": {}}, "capability_required"),
        ({"offering": "o"}, "capability_required"),
    ],
)
async def test_what_the_host_cannot_process_is_unprocessable(api: Api, changes: dict[str, Any], code: str) -> None:
    import json

    assert await post(api, json.dumps(body(**changes))) == (422, code)
    await assert_nothing_happened(api)


@pytest.mark.req("HA-09", "HA-50")
@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"content-type": "text/plain"}, (415, "unsupported_media_type")),
        ({"content-type": "application/json; charset=utf-16"}, (415, "unsupported_media_type")),
        ({"content-encoding": "gzip"}, (415, "unsupported_media_type")),
        ({"idempotency-key": "short"}, (400, "invalid_request")),
        ({"idempotency-key": "with blanks in the key"}, (400, "invalid_request")),
        ({"content-type": 'application/json; charset="UTF-8"'}, (200, "")),
    ],
)
async def test_headers_are_read_strictly(api: Api, headers: dict[str, str], expected: tuple[int, str]) -> None:
    import json

    assert await post(api, json.dumps(body()), **headers) == expected


@pytest.mark.req("HA-12")
async def test_a_body_is_read_no_further_than_the_limit(api: Api) -> None:
    sent = 0

    async def endless() -> Any:
        nonlocal sent
        for _ in range(100):
            sent += 1
            yield b"x" * 65536

    headers = {"content-type": "application/json", "idempotency-key": KEY}
    answer = await api.client.post(f"{ROOT}/resources", content=endless(), headers=headers)

    assert (answer.status_code, answer.json()["code"]) == (413, "request_too_large")
    assert sent <= 18
    announced = await post(api, b"{}", **{"content-length": str(10**9)})
    assert announced == (413, "request_too_large")


@pytest.mark.req("HA-01", "HA-11")
@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("DELETE", f"{ROOT}/resources", 405, "GET, POST"),
        ("PATCH", f"{ROOT}/resources/u", 405, "GET, PUT, DELETE"),
        ("PoST", f"{ROOT}/resources", 405, "GET, POST"),
        ("POST", "/.well-known/takoform/v2", 405, "GET"),
        ("GET", f"{ROOT}/previews", 405, "POST"),
        ("GET", "/", 404, None),
        ("GET", f"{ROOT}/", 404, None),
        ("GET", f"{ROOT}/resources/", 404, None),
        ("GET", f"{ROOT}/resources/a%2Fb", 404, None),
        ("GET", f"{ROOT}/resources/a%252Fb", 404, None),
        ("GET", f"{ROOT}/resources/%00", 404, None),
        ("GET", f"{ROOT}/resources/%zz", 404, None),
        ("GET", f"{ROOT}/resources/%ff", 404, None),
        ("GET", f"{ROOT}//resources", 404, None),
        ("GET", f"{ROOT}/operations/none", 404, None),
    ],
)
async def test_paths_and_methods_are_exact(api: Api, method: str, path: str, status: int, allow: str | None) -> None:
    request = api.client.build_request(method, "/")
    request.url = request.url.copy_with(raw_path=path.encode())
    request.method = method
    answer = await api.client.send(request)

    assert answer.status_code == status, answer.text
    assert answer.headers.get("allow") == allow
    assert answer.headers["cache-control"] == "no-store"
    problem = answer.json()
    assert (problem["type"], problem["status"]) == ("about:blank", status)
    assert problem["code"] == ("method_not_allowed" if status == 405 else "not_found")


@pytest.mark.req("HA-26", "HA-25")
async def test_capabilities_that_are_off_answer_so(tmp_path: Path) -> None:
    off = Capabilities(previews=False, private_inputs=False)
    async with running_api(tmp_path / "control.sqlite", capabilities=off) as api:
        for method, path in (
            ("POST", "/previews"),
            ("PUT", "/operations/op/private-inputs"),
            ("GET", "/offerings"),
        ):
            answer = await api.client.request(method, ROOT + path)
            assert (answer.status_code, answer.json()["code"]) == (404, "capability_unavailable")
        assert (await api.get("/support", form=form_url("WorkerVersion"))).json()["privateInputs"] is False
        capabilities = (await api.client.get("/.well-known/takoform/v2")).json()["capabilities"]
        assert capabilities == {"offerings": False, "previews": False, "privateInputs": False}


@pytest.mark.req("HA-07", "HA-24", "HA-34")
@pytest.mark.parametrize(
    "path",
    [
        "/resources?limit=0",
        "/resources?limit=101",
        "/resources?limit=1.0",
        "/resources?limit=",
        "/resources?limit=1&limit=1",
        "/resources?other=1",
        "/resources?space=%ff",
        "/resources?space=a%2",
        "/resources?name=",
        "/resources?form=x",
        "/resources?cursor=abc",
        "/resources?cursor=%C3%A4",
        "/support",
        "/support?form=nothing",
        "/support?form=https://a.b/&form=https://a.b/",
        "/resources/u?x=1",
        "/operations/o?x=1",
    ],
)
async def test_queries_are_read_strictly(api: Api, path: str) -> None:
    answer = await api.client.get(ROOT + path)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")


@pytest.mark.parametrize("host", ["x/y?z=", "a@b", "", "a b"])
async def test_a_malformed_host_header_is_refused(api: Api, host: str) -> None:
    answer = await api.client.get("/.well-known/takoform/v2", headers={"host": host})
    assert answer.status_code == 400


@pytest.mark.req("HA-09", "HA-35", "HA-36")
async def test_updates_and_deletes_need_their_headers(api: Api) -> None:
    worker = await api.worker()
    path = f"{ROOT}/resources/{worker}"
    key = {"idempotency-key": KEY}
    for headers, expected in (
        (key, (428, "expected_generation_required")),
        ({**key, "takoform-expected-generation": "01"}, (400, "invalid_request")),
        ({**key, "takoform-expected-generation": "1.0"}, (400, "invalid_request")),
        ({**key, "takoform-expected-generation": "9" * 17}, (400, "invalid_request")),
        ({**key, "takoform-expected-generation": "2"}, (409, "generation_conflict")),
        ({"takoform-expected-generation": "1"}, (400, "invalid_request")),
    ):
        for method in ("PUT", "DELETE"):
            content: dict[str, Any] = {"json": {"spec": {}}} if method == "PUT" else {}
            answer = await api.client.request(method, path, headers=headers, **content)
            assert (answer.status_code, answer.json()["code"]) == expected
    with_body = await api.client.request(
        "DELETE", path, headers={**key, "takoform-expected-generation": "1"}, content=b"{}"
    )
    assert (with_body.status_code, with_body.json()["code"]) == (400, "invalid_request")
    missing = await api.update("r-none", 1, {})
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")


@pytest.mark.req("HA-32", "WV-05")
async def test_a_reference_that_cannot_be_used_has_one_answer(api: Api) -> None:
    worker = await api.worker()
    elsewhere = (await api.create("ModuleWorker", "w", {}, space="other")).json()["resourceUid"]
    bundle = await api.made("WorkerBundle", "b", {"artifact": api.backend.store_bundle([], [])})
    deleting = await api.worker("leaving")
    api.backend.hold("workers.retire")
    await api.delete(deleting, 1)

    answers = [
        await api.create("DurableWorkflow", "f", {"worker": ref(uid), "className": "C"})
        for uid in ("r-absent", elsewhere, bundle, deleting)
    ]

    assert {answer.status_code for answer in answers} == {409}
    assert len({answer.text for answer in answers}) == 1
    assert answers[0].json()["code"] == "dependency_conflict"
    assert (await api.create("DurableWorkflow", "f", {"worker": ref(worker), "className": "C"})).status_code == 200
    api.backend.release("workers.retire")


@pytest.mark.req("HA-31", "HA-37")
async def test_a_taken_name_and_a_busy_resource_are_conflicts(api: Api) -> None:
    api.backend.hold("workers.register")
    first = await api.create("ModuleWorker", "w", {})
    assert first.status_code == 202
    assert int(first.headers["retry-after"]) > 0
    taken = await api.create("WorkerBundle", "w", {"artifact": api.backend.store_bundle([], [])})
    assert (taken.status_code, taken.json()["code"]) == (409, "name_conflict")
    busy = await api.update(first.json()["resourceUid"], 1, {})
    assert (busy.status_code, busy.json()["code"]) == (409, "resource_busy")
    assert busy.json()["operationId"] == first.json()["id"]
    api.backend.release("workers.register")
    assert (await api.settled(first.json()["id"]))["status"] == "succeeded"


@pytest.mark.req("HA-13")
async def test_an_unexpected_failure_shows_nothing_of_the_host(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("secret path /etc")

    monkeypatch.setattr(api.engine, "support", broken)
    answer = await api.get("/support", form=form_url("ModuleWorker"))
    assert (answer.status_code, answer.json()["code"]) == (500, "internal_error")
    assert "secret" not in answer.text


@pytest.mark.req("HA-20", "HA-24")
async def test_discovery_and_support_say_exactly_what_is_offered(tmp_path: Any) -> None:
    async with running_api(tmp_path / "control.sqlite", FakeBackend()) as api:
        answer = await api.client.get("/.well-known/takoform/v2")
        base = "https://127.0.0.1:7443"
        assert answer.json() == {
            "api": "forms.takoform.com/v2",
            "baseUrl": f"{base}/apis/forms.takoform.com/v2",
            "documentation": f"{base}/documentation",
            "authentication": {"schemes": ["None"], "documentation": f"{base}/documentation/authentication"},
            "capabilities": {"offerings": False, "previews": True, "privateInputs": True},
            "limits": {"maxRequestBytes": 1048576, "maxPageSize": 100, "replayWindowSeconds": 86400},
        }
        assert (await api.client.get("/documentation/authentication")).status_code == 200
        for url, is_supported, takes in (
            (form_url("WorkerVersion"), True, True),
            (form_url("WorkerBundle"), True, False),
            ("https://a.example/x/", False, False),
        ):
            support = (await api.get("/support", form=url)).json()
            assert support == {
                "form": url,
                "supported": is_supported,
                "operations": ["create", "read", "update", "delete"] if is_supported else [],
                "privateInputs": takes,
            }
