"""Handlers fired by hand, over ASGI."""

from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from emulator.events import Batch, Message, NotStarted, Refusal
from emulator.management.errors import ManagementRefused, answer_refused
from emulator.management.trigger_routes import TriggerRoutes
from host.model.json import JsonObject
from host.ports import BackendUnavailable

START_MS = 1_800_000_000_000


class Triggers:
    """Writes down what is fired; the Worker's uid says what is refused."""

    def __init__(self) -> None:
        self.fired: list[object] = []

    def now_ms(self) -> int:
        return START_MS

    async def scheduled(self, worker_uid: str, cron: str, scheduled_ms: int | None) -> JsonObject:
        return self._fire(worker_uid, (cron, scheduled_ms))

    async def queue(self, worker_uid: str, batch: Batch) -> JsonObject:
        return self._fire(worker_uid, batch)

    async def deliveries(self, worker_uid: str) -> list[JsonObject]:
        return [{"of": worker_uid}]

    def _fire(self, worker_uid: str, what: object) -> JsonObject:
        if worker_uid in set(Refusal):
            raise NotStarted(Refusal(worker_uid), None)
        if worker_uid == "gone":
            raise BackendUnavailable("no gateway")
        self.fired.append(what)
        return {"of": worker_uid}


@pytest.fixture
def triggers() -> Triggers:
    return Triggers()


@pytest.fixture
async def client(triggers: Triggers) -> AsyncIterator[httpx.AsyncClient]:
    routes = TriggerRoutes(triggers)
    paths = {"scheduled": routes.scheduled, "queue": routes.queue}
    app = Starlette(
        routes=[
            Route("/v1/workers/{uid}/queue", routes.deliveries, methods=["GET"]),
            *(Route(f"/v1/workers/{{uid}}/{name}", act, methods=["POST"]) for name, act in paths.items()),
        ],
        exception_handlers={ManagementRefused: answer_refused},
    )
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://h") as opened:
        yield opened


@pytest.mark.req("MW-17")
async def test_a_refused_cron_names_the_field_that_is_wrong(client: httpx.AsyncClient, triggers: Triggers) -> None:
    answer = await client.post("/v1/workers/w/scheduled", json={"cron": "0 24 * * *"})
    assert answer.json()["error"]["message"] == "cron: hour: 24 is not a value from 0 to 23"
    assert triggers.fired == []


@pytest.mark.req("MW-17", "MW-18")
async def test_handlers_are_fired_with_what_was_given_and_sensible_values_for_the_rest(
    client: httpx.AsyncClient, triggers: Triggers
) -> None:
    ticks: list[JsonObject] = [{"cron": "*/5 * * * MON-FRI"}, {"cron": "0 0 1 1 *", "scheduledTime": 0}]
    for body in ticks:
        assert (await client.post("/v1/workers/w/scheduled", json=body)).json() == {"of": "w"}
    whole: JsonObject = {
        "queue": "orders",
        "batchId": "b",
        "retryDelaySeconds": 43200,
        "messages": [{"id": "m", "body": "AP8=", "timestampMillis": 0, "attempts": 7}],
    }
    short: JsonObject = {"queue": "orders", "messages": [{"text": "\u00e9"}, {"body": ""}]}
    for body in (whole, short):
        assert (await client.post("/v1/workers/w/queue", json=body)).json() == {"of": "w"}
    first, second, third, fourth = triggers.fired
    assert (first, second) == (("*/5 * * * MON-FRI", None), ("0 0 1 1 *", 0))
    assert third == Batch("b", "orders", (Message("m", b"\x00\xff", 0, 7),), 43_200)
    assert isinstance(fourth, Batch)
    assert fourth.messages == (
        Message("message-1", b"\xc3\xa9", START_MS, 1),
        Message("message-2", b"", START_MS, 1),
    )
    assert (len(fourth.batch_id), fourth.retry_delay_s) == (16, 0)
    assert (await client.get("/v1/workers/w/queue")).json() == {"items": [{"of": "w"}]}


ONE = {"text": "a"}


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("w/scheduled", {}, 400, "invalid_request"),
        ("w/scheduled", {"cron": "* * * *"}, 400, "invalid_request"),
        ("w/scheduled", {"cron": "* * * * * *"}, 400, "invalid_request"),
        ("w/scheduled", {"cron": "* *  * * *"}, 400, "invalid_request"),
        ("w/scheduled", {"cron": "* 24 * * *"}, 400, "invalid_request"),
        ("w/scheduled", {"cron": "* * * * *", "scheduledTime": -1}, 400, "invalid_request"),
        ("w/scheduled", {"cron": "* * * * *", "scheduledTime": 1.5}, 400, "invalid_request"),
        ("w/scheduled", {"cron": "* * * * *", "at": 1}, 400, "invalid_request"),
        ("unknown_worker/scheduled", {"cron": "* * * * *"}, 404, "unknown_worker"),
        ("a%20b/scheduled", {"cron": "* * * * *"}, 404, "unknown_worker"),
        ("no_deployment/scheduled", {"cron": "* * * * *"}, 409, "no_deployment"),
        ("secrets_lost/scheduled", {"cron": "* * * * *"}, 409, "secrets_lost"),
        ("handler_not_declared/queue", {"queue": "q", "messages": [ONE]}, 409, "handler_not_declared"),
        ("gone/queue", {"queue": "q", "messages": [ONE]}, 503, "backend_unavailable"),
        ("w/queue", {"queue": "q"}, 400, "invalid_request"),
        ("w/queue", {"messages": [ONE]}, 400, "invalid_request"),
        ("w/queue", {"queue": "q", "messages": []}, 400, "invalid_request"),
        ("w/queue", {"queue": "q", "messages": [1]}, 400, "invalid_request"),
        ("w/queue", {"queue": "q", "messages": [{}]}, 400, "invalid_request"),
        ("w/queue", {"queue": "q", "messages": [{"text": "a", "body": ""}]}, 400, "invalid_request"),
        ("w/queue", {"queue": "q", "messages": [{"body": "AP8"}]}, 400, "invalid_request"),
        ("w/queue", {"queue": "q", "messages": [{"body": "\u00e9"}]}, 400, "invalid_request"),
        ("w/queue", {"queue": "q", "messages": [{"text": "a", "attempts": 0}]}, 400, "invalid_request"),
        ("w/queue", {"queue": "q", "messages": [ONE], "retryDelaySeconds": 43201}, 400, "invalid_request"),
        ("w/queue", {"queue": "q", "messages": [{"text": "x" * 8_400_000}]}, 413, "request_too_large"),
    ],
)
async def test_a_wrong_trigger_fires_nothing(
    client: httpx.AsyncClient, triggers: Triggers, path: str, body: JsonObject, status: int, code: str
) -> None:
    answer = await client.post(f"/v1/workers/{path}", json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), answer.text
    assert triggers.fired == []
