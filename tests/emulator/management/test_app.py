"""The management routes over ASGI, with a real custody of artifacts."""

import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from emulator.artifacts import SCHEMA, ArtifactCustody
from emulator.management import ClockControl, ManagementParts, ProcessFigures, create_app
from emulator.runtime.app_log import AppLog
from emulator.workflow import ErrorName, InstanceRefused
from host.model.errors import ErrorCode, HostError
from host.model.faults import FaultPoints, register
from host.model.json import JsonObject
from host.model.operation_states import Effect
from host.model.records import Operation
from host.model.time import ControlledClock, RealTime
from host.sqlite import Database
from tests.emulator.management.test_trigger_routes import Triggers

START_MS = 1_800_000_000_000
TOKEN = "secret"
HOST = "127.0.0.1:9"
POINT = register("management.test_point", "between nothing and nothing, for tests")


class Idle:
    async def next_due_ms(self) -> int | None:
        return START_MS + 5000

    async def idle(self) -> None:
        return None

    def executing(self) -> tuple[str, ...]:
        return ()


class Instances:
    async def list_instances(
        self, workflow_uid: str, after: int, most: int
    ) -> tuple[list[JsonObject], int | None] | None:
        if workflow_uid != "w":
            return None
        page: list[JsonObject] = [{"id": name} for name in "abc"[after : after + most]]
        return page, after + most if len(page) == most else None

    async def show_instance(self, workflow_uid: str, instance_id: str) -> AsyncIterator[str] | None:
        return self._told(workflow_uid, instance_id) if workflow_uid == "w" else None

    async def _told(self, workflow_uid: str, instance_id: str) -> AsyncIterator[str]:
        yield '{"uid":'
        yield f"{json.dumps(workflow_uid)},"
        yield f'"id":{json.dumps(instance_id)}}}'


class Settlements:
    """Settles nothing."""

    async def settle(self, operation_id: str, effect: Effect, message: str) -> Operation | None:
        return None


class Calls:
    def __init__(self) -> None:
        self.made: list[tuple[str | None, ...]] = []

    async def create(self, workflow_uid: str, instance_id: str | None, params_text: str | None) -> str:
        self.made.append(("create", workflow_uid, instance_id, params_text))
        if instance_id in set(ErrorName):
            raise InstanceRefused(ErrorName(str(instance_id)), "told so")
        return instance_id or "issued"

    async def send_event(self, workflow_uid: str, instance_id: str, event_type: str, payload: str | None) -> None:
        self.made.append(("send", workflow_uid, instance_id, event_type, payload))

    async def terminate(self, workflow_uid: str, instance_id: str) -> None:
        self.made.append(("terminate", workflow_uid, instance_id))


class Withdrawals:
    async def list_withdrawals(self) -> list[JsonObject]:
        return [{"versionUid": "v"}]


class Processes:
    def processes(self) -> tuple[ProcessFigures, ...]:
        return (ProcessFigures("gateway", 7, 1000, None),)


@pytest.fixture
def faults() -> FaultPoints:
    return FaultPoints()


@pytest.fixture
def calls() -> Calls:
    return Calls()


class Principals:
    """Those that the host knows: as its token file says now."""

    def __init__(self) -> None:
        self.names: tuple[str, ...] | None = ("zoe", "local")

    def __call__(self) -> tuple[str, ...]:
        if self.names is None:
            raise HostError(ErrorCode.TEMPORARILY_UNAVAILABLE, "nobody can tell")
        return self.names


@pytest.fixture
def principals() -> Principals:
    return Principals()


@pytest.fixture
async def client(
    tmp_path: Path, faults: FaultPoints, calls: Calls, principals: Principals
) -> AsyncIterator[httpx.AsyncClient]:
    database = await Database.open(tmp_path / "db", application_id=1, migrations=(SCHEMA,))
    parts = ManagementParts(
        artifacts=await ArtifactCustody.open(database, tmp_path / "artifacts"),
        principals=principals,
        clock=ClockControl(ControlledClock.frozen(START_MS), Idle(), RealTime()),
        instances=Instances(),
        calls=calls,
        withdrawals=Withdrawals(),
        faults=faults,
        processes=Processes(),
        openapi=lambda: {"openapi": "3.1.0"},
        operations=Settlements(),
        words=AppLog(lambda: START_MS),
        listeners={"ingressTls": "https://localhost:1"},
        triggers=Triggers(),
    )
    transport = httpx.ASGITransport(create_app(parts, hosts=[HOST], token=TOKEN))
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}", headers=headers) as opened:
        yield opened
    await database.close()


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer wrong", "Basic secret", "Bearer sécret"])
async def test_without_the_token_nothing_answers(client: httpx.AsyncClient, header: str) -> None:
    answer = await client.get("/v1/clock", headers={b"Authorization": header.encode()})
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "unauthenticated"


async def test_a_rebound_host_name_is_refused_even_with_the_token(client: httpx.AsyncClient) -> None:
    answer = await client.get("/v1/clock", headers={"Host": "evil.example"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (421, "wrong_host")


async def test_an_uploaded_artifact_is_named_with_its_size(client: httpx.AsyncClient) -> None:
    digest = hashlib.sha256(b"abc").hexdigest()
    answer = await client.put(f"/v1/artifacts/sha256/{digest}", content=b"abc")
    assert (answer.status_code, answer.json()) == (200, {"sha256": digest, "byteSize": 3, "principal": "local"})
    assert (await client.delete(f"/v1/artifacts/sha256/{digest}?principal=other")).status_code == 404
    assert (await client.delete(f"/v1/artifacts/sha256/{digest}")).status_code == 204


@pytest.mark.req("WB-06", "HA-22")
@pytest.mark.parametrize(
    ("names", "status", "code", "message"),
    [
        (
            ("zoe", "local"),
            404,
            "unknown_principal",
            "there is no principal 'Zoe' here: ?principal= is one of local, zoe",
        ),
        (
            tuple(f"p{number}" for number in range(10, 99)),
            404,
            "unknown_principal",
            f"there is no principal 'Zoe' here: ?principal= is one of {', '.join(f'p{n}' for n in range(10, 30))}, ...",
        ),
        ((), 404, "unknown_principal", "there is no principal 'Zoe' here: ?principal= is one of (nobody yet)"),
        (None, 503, "temporarily_unavailable", "nobody can tell"),
    ],
)
async def test_nothing_is_held_for_a_principal_that_the_host_does_not_know(
    client: httpx.AsyncClient,
    principals: Principals,
    names: tuple[str, ...] | None,
    status: int,
    code: str,
    message: str,
) -> None:
    digest = hashlib.sha256(b"abc").hexdigest()
    principals.names = names
    answer = await client.put(f"/v1/artifacts/sha256/{digest}?principal=Zoe", content=b"abc")
    assert (answer.status_code, answer.json()) == (status, {"error": {"code": code, "message": message}})
    assert (await client.delete(f"/v1/artifacts/sha256/{digest}?principal=Zoe")).status_code == 404


@pytest.mark.req("WB-06", "HA-22")
async def test_an_upload_of_a_principal_that_is_gone_can_be_taken_back(
    client: httpx.AsyncClient, principals: Principals
) -> None:
    address = f"/v1/artifacts/sha256/{hashlib.sha256(b'abc').hexdigest()}?principal=zoe"
    assert (await client.put(address, content=b"abc")).status_code == 200
    principals.names = ("local",)
    assert (await client.put(address, content=b"abc")).status_code == 404
    assert (await client.delete(address)).status_code == 204


@pytest.mark.parametrize(
    ("address", "status", "code"),
    [
        ("0" * 64, 422, "digest_mismatch"),
        ("0" * 63, 400, "invalid_request"),
        ("A" * 64, 400, "invalid_request"),
        ("0" * 64 + "?principle=x", 400, "invalid_request"),
        ("0" * 64 + "?principal=x&principal=y", 400, "invalid_request"),
        ("0" * 64 + "?principal=", 400, "invalid_request"),
    ],
)
async def test_a_bad_upload_is_refused_with_a_reason(
    client: httpx.AsyncClient, address: str, status: int, code: str
) -> None:
    answer = await client.put(f"/v1/artifacts/sha256/{address}", content=b"abc")
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


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
    assert shown == [{"role": "gateway", "pid": 7, "residentBytes": 1000, "cpuMs": None, "contexts": None}]
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
