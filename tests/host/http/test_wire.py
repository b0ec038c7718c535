"""What every answer looks like, and what of a request is read at all."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from host.engine.limits import Limits
from host.http.answers import problem
from host.http.routes import ROOT
from host.http.statuses import STATUS_OF
from host.model.errors import CallerError, ErrorCode
from host.model.json import MAX_DEPTH
from host.sqlite import DatabaseBusy
from tests.host.api import Api, Json, form_url, ref, running_api

KEY = "key-abcdefghijklmnop"
JSON = {"content-type": "application/json", "idempotency-key": KEY}


def text(spec: str = "{}", name: str = "w") -> str:
    return f'{{"form":"{form_url("ModuleWorker")}","space":"s","name":"{name}","spec":{spec}}}'


async def post(api: Api, content: bytes | str, **headers: str) -> httpx.Response:
    return await api.client.post(f"{ROOT}/resources", content=content, headers={**JSON, **headers})


@pytest.mark.req("HA-01", "HA-10", "HA-14", "HA-15")
@pytest.mark.parametrize("code", ErrorCode)
def test_a_problem_has_exactly_the_members_of_the_contract(code: ErrorCode) -> None:
    for operation_id in (None, "op-1"):
        answer = problem(CallerError(code, "said", operation_id=operation_id), ("GET", "PUT"), ("Bearer",), "1.1")
        document = json.loads(bytes(answer.body))
        expected: Json = {"type": "about:blank", "title": document["title"], "status": STATUS_OF[code], "code": code}
        expected["detail"] = "said"
        if operation_id is not None:
            expected["operationId"] = operation_id
        assert document == expected
        assert document["title"]
        assert type(document["status"]) is int
        assert answer.status_code == STATUS_OF[code]
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers.get("allow") == ("GET, PUT" if code is ErrorCode.METHOD_NOT_ALLOWED else None)
        assert ("retry-after" in answer.headers) == (STATUS_OF[code] in (429, 503))


@pytest.mark.req("HA-01", "HA-10", "HA-40")
async def test_every_success_is_json_that_nobody_stores(api: Api) -> None:
    made = await api.create("ModuleWorker", "w", {})
    uid, operation = made.json()["resourceUid"], made.json()["id"]
    answers = [
        made,
        await api.get(f"/resources/{uid}"),
        await api.get("/resources"),
        await api.get(f"/operations/{operation}"),
        await api.get("/support", form=form_url("ModuleWorker")),
        await api.client.get("/.well-known/takoform/v2"),
        await api.preview({"action": "delete", "uid": uid, "expectedGeneration": 1}),
        await api.update(uid, 1, {}),
        await api.delete(uid, 2),
    ]
    for answer in answers:
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["cache-control"] == "no-store"


@pytest.mark.req("HA-02", "HA-08")
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"null",
        b"[]",
        b'"text"',
        b"\xef\xbb\xbf" + text().encode(),
        text().encode("utf-16"),
        text().encode("utf-32-le"),
        text().encode() + b"x",
        text().encode() + b"\x00",
        text().encode() + text().encode(),
        text().replace("w", "\x01").encode(),
        text('{"a":\xa01}').encode("latin-1"),
        text('{"a":"\\x"}').encode(),
        text('{"a":"\\ud83d\\ud83d"}').encode(),
        text('{"a":"').encode()[:-1] + b"\xc0\x80" + b'"}}',
        text('{"a":"').encode()[:-1] + b"\xed\xa0\x80" + b'"}}',
        text('{"a":.5}').encode(),
        text('{"a":+1}').encode(),
        text('{"a":1.}').encode(),
        text('{"a":0x1}').encode(),
        text('{"a":1,}').encode(),
        text('{"a":Infinity}').encode(),
        text('{"a":-1e999}').encode(),
        text('{"a":[[{"b":1,"\\u0062":2}]]}').encode(),
    ],
)
async def test_what_is_not_one_strict_json_object_is_a_bad_request(api: Api, content: bytes) -> None:
    answer = await post(api, content)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert (await api.get("/resources")).json()["items"] == []


@pytest.mark.req("HA-02")
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
async def test_the_depth_limit_is_exact(api: Api, opening: str, closing: str) -> None:
    def nested(depth: int) -> str:
        inner = depth - 1
        return text('{"x":' + opening * (inner - 1) + "1" + closing * (inner - 1) + "}")

    assert (await post(api, nested(MAX_DEPTH))).json()["code"] == "invalid_spec"
    assert (await post(api, nested(MAX_DEPTH + 1))).json()["code"] == "invalid_request"
    brackets = text('{"x":"' + "[" * 200 + '"}')
    assert (await post(api, brackets)).json()["code"] == "invalid_spec", "brackets in a string are no depth"


@pytest.mark.req("HA-09")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-type": "application/json;charset=utf-8"}, 200),
        ({"content-type": "Application/JSON ; Charset=UTF-8"}, 200),
        ({"content-encoding": "identity"}, 200),
        ({"content-type": "application/json; charset=latin-1"}, 415),
        ({"content-type": "application/problem+json"}, 415),
        ({"content-type": "application/json, text/plain"}, 415),
        ({"content-type": ""}, 415),
        ({"content-encoding": "gzip"}, 415),
        ({"content-encoding": "identity, br"}, 415),
        ({"content-encoding": "zstd"}, 415),
    ],
)
async def test_media_types_and_codings_are_exact(api: Api, headers: dict[str, str], status: int) -> None:
    answer = await post(api, text(), **headers)
    assert answer.status_code == status, answer.text
    if status == 415:
        assert answer.json()["code"] == "unsupported_media_type"


@pytest.mark.req("HA-09")
async def test_a_body_without_a_type_or_with_two_is_refused(api: Api) -> None:
    without = await api.client.post(f"{ROOT}/resources", content=text(), headers={"idempotency-key": KEY})
    assert without.status_code == 415
    pairs = [("content-type", "application/json"), ("content-type", "application/json"), ("idempotency-key", KEY)]
    twice = await api.client.post(f"{ROOT}/resources", content=text(), headers=pairs)
    assert twice.status_code == 400


@pytest.mark.req("HA-50", "HA-35")
@pytest.mark.parametrize("name", ["idempotency-key", "takoform-expected-generation"])
async def test_a_repeated_header_is_refused(api: Api, name: str) -> None:
    worker = await api.worker()
    pairs = [("idempotency-key", KEY), ("takoform-expected-generation", "1")]
    pairs.append(next(pair for pair in pairs if pair[0] == name))
    answer = await api.client.delete(f"{ROOT}/resources/{worker}", headers=pairs)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert (await api.resource(worker))["generation"] == 1


@pytest.mark.req("HA-50")
@pytest.mark.parametrize(
    ("key", "is_right"),
    [
        ("k" * 15, False),
        ("k" * 16, True),
        ("k" * 128, True),
        ("k" * 129, False),
        ("-" + "k" * 16, False),
        ("k:._-" * 4, True),
        ("k" * 16 + "/", False),
        ("k" * 16 + " x", False),
        ("ü" * 16, False),
    ],
)
async def test_the_grammar_of_a_key(api: Api, key: str, is_right: bool) -> None:
    headers = [(b"content-type", b"application/json"), (b"idempotency-key", key.encode("utf-8"))]
    answer = await api.client.post(f"{ROOT}/resources", content=text(), headers=headers)
    assert answer.status_code == (200 if is_right else 400)


@pytest.mark.req("HA-09", "HA-36")
async def test_a_delete_with_content_is_refused_and_changes_nothing(api: Api) -> None:
    worker = await api.worker()
    headers = {"idempotency-key": KEY, "takoform-expected-generation": "1"}

    async def chunks() -> Any:
        yield b""
        yield b"x"

    for content in (b"{}", chunks()):
        answer = await api.client.request("DELETE", f"{ROOT}/resources/{worker}", headers=headers, content=content)
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert (await api.delete(worker, 1, key=KEY)).status_code == 200


@pytest.mark.req("HA-12")
async def test_the_size_limit_is_exact(tmp_path: Path) -> None:
    content = text()
    limits = Limits(settle_wait_s=0.2, max_request_bytes=len(content))
    async with running_api(tmp_path / "control.sqlite", limits=limits) as api:
        over = await post(api, content + " ")
        assert (over.status_code, over.json()["code"]) == (413, "request_too_large")

        async def unannounced() -> AsyncIterator[bytes]:
            yield content.encode()
            yield b" "

        chunked = await api.client.post(f"{ROOT}/resources", content=unannounced(), headers=JSON)
        assert (chunked.status_code, chunked.json()["code"]) == (413, "request_too_large")
        assert (await post(api, content)).status_code == 200
        assert (await api.client.get("/.well-known/takoform/v2")).json()["limits"]["maxRequestBytes"] == len(content)


@pytest.mark.req("HA-14")
async def test_a_busy_database_is_temporary_and_says_when_to_come_again(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def busy(*_: object) -> None:
        raise DatabaseBusy("locked by /secret/path")

    with monkeypatch.context() as patch:
        patch.setattr(api.database, "write", busy)
        answer = await api.create("ModuleWorker", "w", {}, key=KEY)
    assert (answer.status_code, answer.json()["code"]) == (503, "temporarily_unavailable")
    assert int(answer.headers["retry-after"]) > 0
    assert "secret" not in answer.text
    assert (await api.create("ModuleWorker", "w", {}, key=KEY)).status_code == 200


@pytest.mark.req("HA-16")
async def test_headers_of_no_contract_change_nothing(api: Api) -> None:
    first = await post(api, text(), **{"x-extra": "1", "takoform-expected-generation": "7", "accept": "text/html"})
    again = await post(api, text())
    assert (first.status_code, first.json()) == (200, again.json())
    assert not [name for name in first.headers if name.startswith("x-")]


@pytest.mark.req("HA-27", "HA-20")
async def test_the_pages_that_discovery_names_say_who_owns_what(api: Api) -> None:
    discovery = (await api.client.get("/.well-known/takoform/v2")).json()
    assert (await api.client.get(discovery["documentation"])).status_code == 200
    page = await api.client.get(discovery["authentication"]["documentation"])
    assert page.status_code == 200
    for word in ("principal", "credential", "rights", "keys", "Resources", "token new"):
        assert word in page.text


@pytest.mark.req("HA-28", "HA-24")
async def test_what_is_not_built_is_never_called_an_invalid_spec(api: Api) -> None:
    worker = await api.worker()
    bundle = await api.made("WorkerBundle", "b", {"artifact": api.backend.store_bundle([], [])})
    spec = {"worker": ref(worker), "bundle": ref(bundle), "handlers": []}
    for member in ("kvBindings", "sqliteBindings", "bucketBindings", "queueProducerBindings", "actorBindings"):
        answer = await api.create("WorkerVersion", "v", {**spec, member: [{"name": "B", "resource": ref("r-1")}]})
        assert (answer.status_code, answer.json()["code"]) == (409, "dependency_conflict")


@pytest.mark.req("HA-33", "HA-43", "HA-45")
async def test_a_read_starts_nothing(api: Api) -> None:
    worker = await api.worker()
    operation = (await api.resource(worker))["lastOperation"]
    api.backend.workers.clear()
    calls, before = list(api.backend.calls), await api.resource(worker)
    for _ in range(2):
        assert await api.resource(worker) == before
        await api.operation(operation)
        await api.get("/resources")
    assert api.backend.calls == calls


@pytest.mark.req("HA-31")
async def test_a_name_is_free_again_only_when_its_delete_has_succeeded(api: Api) -> None:
    worker = await api.worker()
    api.backend.hold("workers.retire")
    deleting = await api.delete(worker, 1)
    assert deleting.status_code == 202
    assert (await api.create("ModuleWorker", "w", {})).json()["code"] == "name_conflict"
    shown = await api.resource(worker)
    assert (shown["phase"], shown["generation"], shown["observedGeneration"]) == ("deleting", 2, 1)
    assert [item["uid"] for item in (await api.get("/resources")).json()["items"]] == [worker]
    api.backend.release("workers.retire")
    await api.settled(deleting.json()["id"])
    again = await api.create("ModuleWorker", "w", {})
    assert again.json()["resourceUid"] != worker
