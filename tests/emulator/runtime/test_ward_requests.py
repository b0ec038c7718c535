"""A Version in a ward sees the requests, and its clients the answers, of the shared process: one table, sent to both."""

import asyncio
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

import pytest

from emulator.runtime.app_log import AppLog
from tests.emulator.runtime.gateways import DEADLINE_S
from tests.emulator.runtime.towns import SPIN, Town

CHUNKED = ("Transfer-Encoding: chunked",)
PIECES = b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
UPGRADE = ("Upgrade: websocket", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13")
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
LENGTHLESS = "if (url.pathname === '/null') return new Response(null, { status: +url.searchParams.get('s'), headers });"
CODE = (
    SPIN
    + """
const url = new URL(request.url);
const headers = new Headers({ "x-app": "1" });
headers.append("set-cookie", "a=1; Path=/"); headers.append("set-cookie", "b=2, c");
"""
    + LENGTHLESS
    + """
if (url.pathname === "/moved") return Response.redirect("http://elsewhere.example/x?y", 307);
if (url.pathname === "/length") return new Response(null, { headers: { "content-length": "12345" } });
if (url.pathname === "/error") return Response.error();
if (url.pathname === "/throw") throw new Error("hidden");
if (url.pathname === "/encoded") {
  const zipped = new Response("zipped").body.pipeThrough(new CompressionStream("gzip"));
  return new Response(await new Response(zipped).arrayBuffer(), { encodeBody: "manual", headers: { "content-encoding": "gzip" } });
}
if (url.pathname === "/big") return new Response(new Uint8Array(3000000).fill(120));
if (url.pathname === "/sum") {
  let sum = 0; for await (const each of request.body) sum += each.length; return new Response(String(sum));
}
if (url.pathname === "/echo") return new Response(request.body);
if (url.pathname === "/socket") {
  const [theirs, ours] = Object.values(new WebSocketPair()); ours.accept();
  ours.addEventListener("message", ({ data }) => ours.send("echo " + data + " " + request.headers.get("upgrade")));
  return new Response(null, { status: 101, webSocket: theirs });
}
const seen = { method: request.method, url: request.url, redirect: request.redirect, cf: request.cf ?? null,
  headers: [...request.headers], hasBody: request.body !== null,
  body: await request.text(), ctx: Reflect.ownKeys(ctx), signal: request.signal?.aborted };
return Response.json(seen, { status: +(url.searchParams.get("s") ?? 200), headers });
"""
)


@dataclass(frozen=True)
class Sent:
    """A request as it goes over the wire, after the lines that all have."""

    method: str
    target: str = "/"
    fields: tuple[str, ...] = ()
    body: bytes = b""

    @property
    def name(self) -> str:
        return f"{self.method} {self.target} {' '.join(self.fields)} {self.body[:20]!r}"

    def to_bytes(self, host: str) -> bytes:
        lines = [f"{self.method} {self.target} HTTP/1.1", f"Host: {host}", "Connection: close", *self.fields, "", ""]
        return "\r\n".join(lines).encode() + self.body


def cases() -> Iterable[Sent]:
    for method in METHODS:
        yield Sent(method, "/a%2Fb?q=%20&q=2")
        yield Sent(method, "/", ("Content-Length: 0",))
        yield Sent(method, "/", ("Content-Length: 4", "Content-Type: text/x"), b"body")
        if method not in ("GET", "HEAD"):
            yield Sent(method, "/", CHUNKED, PIECES)
        yield Sent(method, "/?s=404")
        yield Sent(method, "/throw")
        yield Sent(method, "/error")
        yield Sent(method, "/moved")
    fields = (
        "X-Many: 1",
        "X-Many: 2",
        "Cookie: a=b; c=d",
        "Accept-Encoding: gzip, br",
        "X-High: \u00e9",
        "User-Agent: me",
    )
    yield Sent("GET", "/", fields)
    yield Sent("POST", "/", (*fields, "Content-Length: 1"), b"x")
    yield Sent("GET", "/", ("Range: bytes=0-4", "If-None-Match: x", "Authorization: Basic eDp5", "Origin: http://a.b"))
    yield Sent(
        "GET", "/", ("takohost-method: get", "takohost-target: app1", "takohost-depth: 7", "takohost-started: no")
    )
    yield Sent("GET", "/", ("Upgrade: h2c",))
    yield Sent("GET", "/", (f"X-Long: {'h' * 50_000}",))
    yield Sent("PUT", "/", (f"X-Long: {'h' * 50_000}", "Content-Length: 1"), b"x")
    for status in (201, 204, 205, 304, 404, 503):
        for method in ("GET", "HEAD", "POST"):
            yield Sent(method, f"/null?s={status}")
    for method in ("GET", "HEAD"):
        for target in ("/length", "/encoded", "/big"):
            yield Sent(method, target)
            yield Sent(method, target, ("Accept-Encoding: gzip",))
    big = b"y" * 2_000_000
    yield Sent("POST", "/sum", (f"Content-Length: {len(big)}",), big)
    yield Sent("PUT", "/echo", (f"Content-Length: {len(big)}",), big)


async def answer(town: Town, sent: Sent) -> tuple[str, list[str], bytes]:
    """The status line, the fields in order of name and the body as they came."""
    reader, writer = await asyncio.open_connection("127.0.0.1", town.ingress.port)
    writer.write(sent.to_bytes(town.routes["app"].hostname))
    whole = await asyncio.wait_for(reader.read(), DEADLINE_S)
    writer.close()
    head, _, body = whole.partition(b"\r\n\r\n")
    status, *fields = head.decode("latin-1").split("\r\n")
    return status, sorted(fields), re.sub(rb'("clientIp":"[^"]*?):\d+"', rb'\1"', body)


async def answers(town: Town) -> dict[str, object]:
    """What every case came to."""
    return {sent.name: await answer(town, sent) for sent in cases()}


async def spins(town: Town, sent: Sent) -> str:
    """The status line when the request ends its ward, which had served others before on its connections."""
    for _ in range(2):
        await town.ask("app", "/ok")
    status, _, _ = await answer(town, sent)
    await town.set_apart("app1")
    return status


@pytest.mark.req("MW-14")
async def test_no_request_that_ends_its_ward_is_made_again(town: Town, said: AppLog) -> None:
    """The engine would repeat a GET on a connection that had served another request before."""
    await town.deploy("app", "console.log('started ' + new URL(request.url).pathname);" + CODE)
    await town.provoke("app")
    await town.set_apart("app1")
    sents = [*(Sent(each, "/spin") for each in METHODS), Sent("GET", "/spin", ("Content-Length: 1",), b"x")]
    for sent in (*sents, Sent("GET", "/spin", UPGRADE)):
        before = len(said.recent())
        assert await spins(town, sent) == "HTTP/1.1 500 Internal Server Error"
        started = [line.message for line in said.recent()[before:] if line.message.startswith("started ")]
        assert started == ["started /ok", "started /ok", "started /spin"], sent.name


@pytest.mark.req("MW-14")
async def test_every_request_is_seen_and_answered_as_in_the_shared_process(town: Town) -> None:
    await town.deploy("app", CODE)
    shared = await answers(town)
    await town.provoke("app")
    await town.set_apart("app1")
    apart = await answers(town)
    differing = {name: (shared[name], apart[name]) for name in shared if shared[name] != apart[name]}
    assert not differing
    assert town.gateway.apart.keys() == {"app1"}


@pytest.mark.req("MW-14")
async def test_the_body_of_a_get_without_a_length_does_not_reach_a_ward(town: Town) -> None:
    """A known limit: the engine sends no such body."""
    await town.deploy("app", CODE)
    for seen in ("abcde", ""):
        _, _, body = await answer(town, Sent("GET", "/", CHUNKED, PIECES))
        assert json.loads(body)["body"] == seen
        await town.provoke("app")
        await town.set_apart("app1")


@pytest.mark.req("MW-14")
@pytest.mark.parametrize("is_apart", [False, True])
async def test_bodies_stream_both_ways_and_web_sockets_open(town: Town, is_apart: bool) -> None:
    await town.deploy("app", CODE)
    if is_apart:
        await town.provoke("app")
        await town.set_apart("app1")
    async with asyncio.timeout(DEADLINE_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", town.ingress.port)
        writer.write(Sent("POST", "/echo", CHUNKED, b"5\r\nfirst\r\n").to_bytes(town.routes["app"].hostname))
        await reader.readuntil(b"first")
        writer.write(b"6\r\nsecond\r\n0\r\n\r\n")
        await reader.readuntil(b"second")
        writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", town.ingress.port)
        lines = [
            "GET /socket HTTP/1.1",
            f"Host: {town.routes['app'].hostname}",
            "Connection: Upgrade",
            *UPGRADE,
            "",
            "",
        ]
        writer.write("\r\n".join(lines).encode())
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
        writer.write(b"\x81\x82\0\0\0\0hi")
        assert await reader.readexactly(19) == b"\x81\x11echo hi websocket"
        writer.close()
