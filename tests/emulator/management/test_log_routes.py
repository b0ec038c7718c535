"""`/v1/logs` over ASGI."""

import json

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from emulator.management.errors import ManagementRefused, answer_refused
from emulator.management.log_routes import LogRoutes
from emulator.runtime.app_log import AppLine, AppLog


def client(log: AppLog) -> httpx.AsyncClient:
    app = Starlette(
        routes=[Route("/v1/logs", LogRoutes(log).show)], exception_handlers={ManagementRefused: answer_refused}
    )
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://h")


@pytest.mark.parametrize("query", ["", "?follow=false", "?follow=true"])
async def test_each_line_is_an_object_that_says_whose_it_is(query: str) -> None:
    log = AppLog(lambda: 0)
    log.tell(AppLine(1000, "shop", "w", "v", "i", "c", "warn", "two\nlines"))
    log.close()
    async with client(log) as asking:
        answer = await asking.get("/v1/logs" + query)
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    assert [json.loads(line) for line in answer.text.splitlines()] == [
        {
            "time": "1970-01-01T00:00:01.000Z",
            "level": "warn",
            "workerName": "shop",
            "workerUid": "w",
            "versionUid": "v",
            "instanceId": "i",
            "contextId": "c",
            "message": "two\nlines",
        }
    ]


@pytest.mark.parametrize("query", ["?follow=yes", "?tail=1", "?follow=true&follow=true"])
async def test_another_query_is_refused(query: str) -> None:
    async with client(AppLog(lambda: 0)) as asking:
        assert (await asking.get("/v1/logs" + query)).status_code == 400
