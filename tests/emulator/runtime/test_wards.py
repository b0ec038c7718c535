"""A Version served by a process of its own: what reaches it, what it reaches, and how it ends."""

import asyncio
import json

import httpx
import pytest

from emulator.runtime.app_log import AppLog
from host.ports import BindingRecord
from tests.emulator.runtime.gateways import DEADLINE_S
from tests.emulator.runtime.towns import SPIN, Town

WARDED = (
    SPIN
    + "if (request.url.endsWith('/stream')) return new Response(new ReadableStream({ async pull(c) { await scheduler.wait(1);"
    "c.enqueue(new TextEncoder().encode('.')); } }));"
    "if (request.url.endsWith('/back')) return env.BACK.fetch('http://x/a', { method: 'PUT', body: request.body });"
    "if (request.url.endsWith('/date')) return new Response(String(Date.now()));"
    "return Response.json({ me: env.ME, url: request.url, method: request.method, body: await request.text(),"
    "own: [...request.headers.keys()].filter((k) => k.startsWith('takohost') || k === 'content-length') });"
)


@pytest.fixture
async def warded(town: Town) -> Town:
    """A Worker whose Version `app1` is apart, with a service binding to `back`."""
    await town.deploy("back", "return new Response(request.method + ' ' + await request.text() + ' ' + request.url);")
    await town.deploy("app", WARDED, bindings=(BindingRecord("BACK", "service", "back"),))
    await town.provoke("app")
    await town.set_apart("app1")
    return town


@pytest.mark.req("MW-14", "MW-20")
async def test_a_request_reaches_a_ward_as_it_was_sent(warded: Town) -> None:
    async with warded.client("app") as client:
        for method, body in (("GET", ""), ("POST", "text"), ("DELETE", "")):
            answer = await client.request(method, "/a%2Fb?q=1", content=body, headers={"takohost-method": "get"})
            seen = json.loads(answer.text)
            assert seen["own"] == [*(["content-length"] if body else []), "takohost-method"]
            assert (seen["method"], seen["body"]) == (method, body)
            assert seen["url"] == f"http://{warded.routes['app'].hostname}/a%2Fb?q=1"
        assert (await client.put("/back", content=b"hello")).text == "PUT hello http://x/a"
        assert (await client.head("/")).status_code == 200


@pytest.mark.req("MW-14")
async def test_a_request_that_ends_its_ward_is_not_made_again(warded: Town, said: AppLog) -> None:
    """The engine would repeat a GET on a connection that had served another request before."""
    await warded.deploy("app", "console.log('started ' + request.url.split('/').pop());" + WARDED)
    await warded.provoke("app")
    await warded.set_apart("app2")
    for path in ("/a", "/b"):
        await warded.ask("app", path)
    await warded.provoke("app")
    await warded.set_apart("app2")
    assert [line.message for line in said.recent()].count("started spin") == 2


@pytest.mark.req("WV-09", "WD-07")
async def test_a_body_from_a_ward_counts_and_is_ended_by_its_retirement(warded: Town) -> None:
    async with warded.client("app") as client, client.stream("GET", "/stream") as answer:
        pieces = answer.aiter_raw()
        await anext(pieces)
        assert await warded.gateway.is_executing("app1")
        warded.weigh("app")
        await warded.publish()
        evidence = await warded.gateway.retire("app1")
        assert evidence.kind == "ack"
        with pytest.raises(httpx.RemoteProtocolError):
            async with asyncio.timeout(DEADLINE_S):
                async for _ in pieces:
                    pass
    assert not await warded.gateway.is_executing("app1")
    await warded.set_apart()


@pytest.mark.req("WD-03", "WD-04")
async def test_a_body_from_a_ward_flows_on_when_its_version_is_deployed_anew(warded: Town) -> None:
    async with warded.client("app") as client, client.stream("GET", "/stream") as answer:
        pieces = answer.aiter_raw()
        await anext(pieces)
        await warded.deploy("app", "return new Response('new');", "return new Response('newer');")
        assert warded.gateway.apart == {}
        assert await warded.ask("app") in ("new", "newer")
        for _ in range(20):
            await anext(pieces)
        assert len(warded.gateway.pids) == 2
    await warded.set_apart()


@pytest.mark.req("MW-14")
async def test_a_ward_goes_by_the_clock(warded: Town) -> None:
    warded.ingress.clock.freeze()
    await warded.gateway.follow_clock()
    frozen_ms = warded.ingress.clock.now_ms()
    assert await warded.ask("app", "/date") == str(frozen_ms)
    assert warded.gateway.apart.keys() == {"app1"}
    assert [uid for _, uid in warded.gateway.census] == [None, "app1"]
    assert {pid for pid, _ in warded.gateway.census} == set(warded.gateway.pids)
