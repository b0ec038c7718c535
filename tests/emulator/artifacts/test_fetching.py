"""Fetching from servers of the tests' own: what is asked, what is believed, and what is never contacted."""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from emulator.artifacts import AllowedOrigin, Origin
from emulator.artifacts.fetching import FetchTimes, HttpsSources, dial_address
from host.ports import ArtifactRefused
from tests.emulator.artifacts.origins import TestOrigin, listener, ok, origin

BODY = b"export default {}"


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[TestOrigin]:
    async with origin(tmp_path / "tls") as running:
        running.answer = ok(BODY)
        yield running


async def read(sources: HttpsSources, url: str, max_bytes: int = 1000) -> bytes:
    return b"".join([chunk async for chunk in sources.fetch(url, max_bytes)])


class Resolver:
    """Gives one answer after the other, the last one for ever."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.mark.req("WB-06")
async def test_an_allowed_private_origin_is_asked_plainly(place: TestOrigin) -> None:
    assert await read(HttpsSources([place.allowed()]), place.url("/a/b.js")) == BODY
    head = place.requests[0].decode().lower().split("\r\n")
    assert head[0] == "get /a/b.js http/1.1"
    assert "accept-encoding: identity" in head
    assert f"host: localhost:{place.port}" in head
    assert not [line for line in head if line.startswith(("authorization", "cookie"))]


@pytest.mark.req("WB-06")
async def test_the_hosts_token_goes_to_its_own_origin_alone(place: TestOrigin, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret-word\n")
    other = AllowedOrigin(Origin("localhost", 1), token, place.ca)
    await read(HttpsSources([other, place.allowed()]), place.url())
    assert b"secret-word" not in place.requests[0]
    await read(HttpsSources([place.allowed(token)]), place.url())
    assert b"\r\nauthorization: bearer secret-word\r\n" in place.requests[1].lower()
    token.write_text("two\nlines")
    with pytest.raises(ArtifactRefused, match="token"):
        await read(HttpsSources([place.allowed(token)]), place.url())
    assert place.connections == 2


@pytest.mark.req("WB-06", "WB-07")
@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 206 Partial Content\r\nContent-Length: 1\r\n\r\na",
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\na",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: identity, br\r\nContent-Length: 1\r\n\r\na",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n" + bytes(1001),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n" + bytes(1001) + b"\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 70000 + b"\r\n\r\n",
        b"SSH-2.0-x\r\n\r\n",
        b"",
    ],
)
async def test_any_other_answer_is_refused_and_nothing_is_followed(place: TestOrigin, answer: bytes) -> None:
    place.answer = answer
    with pytest.raises(ArtifactRefused):
        await read(HttpsSources([place.allowed()]), place.url())
    assert place.connections == 1


@pytest.mark.req("WB-06")
@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\nexport d\r\n9\r\nefault {}\r\n0\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Encoding: identity\r\nContent-Length: 17\r\n\r\n"
        + BODY,
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-16\r\nConnection: close\r\n\r\n" + BODY,
    ],
)
async def test_the_body_is_what_lies_behind_the_transfer_framing(place: TestOrigin, answer: bytes) -> None:
    place.answer = answer
    assert await read(HttpsSources([place.allowed()]), place.url()) == BODY


@pytest.mark.req("WB-06")
@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\nexport"])
@pytest.mark.parametrize("times", [FetchTimes(idle_s=0.05, total_s=3600), FetchTimes(idle_s=3600, total_s=0.3)])
async def test_a_source_that_keeps_silent_is_given_up(place: TestOrigin, answer: bytes, times: FetchTimes) -> None:
    place.answer, place.stays_open = answer, True
    with pytest.raises(ArtifactRefused, match="in time"):
        async with asyncio.timeout(20):
            await read(HttpsSources([place.allowed()], times=times), place.url())


@pytest.mark.req("WB-06")
async def test_the_certificate_and_its_name_are_verified(place: TestOrigin, tmp_path: Path) -> None:
    usual_roots = AllowedOrigin(Origin("localhost", place.port))
    with pytest.raises(ArtifactRefused, match="TLS"):
        await read(HttpsSources([usual_roots]), place.url())
    other = "sub.localhost"
    with pytest.raises(ArtifactRefused, match="TLS"):
        await read(HttpsSources([place.allowed(host=other)], Resolver(["127.0.0.1"])), place.url(host=other))
    assert place.requests == []


PRIVATE_URLS = [
    "https://127.0.0.1:{port}/",
    "https://[::1]:{port}/",
    "https://[::ffff:127.0.0.1]:{port}/",
    "https://[::ffff:7f00:1]:{port}/",
    "https://[64:ff9b::7f00:1]:{port}/",
    "https://[2002:7f00:1::]:{port}/",
    "https://2130706433:{port}/",
    "https://0x7f000001:{port}/",
    "https://0x7f.0.0.1:{port}/",
    "https://017700000001:{port}/",
    "https://0177.0.0.1:{port}/",
    "https://127.1:{port}/",
    "https://0:{port}/",
    "https://0.0.0.0:{port}/",
    "https://127.0.0.1.:{port}/",
    "https://localhost:{port}/",
    "https://LOCALHOST.:{port}/",
    "https://user@127.0.0.1:{port}/",
    "https://1.1.1.1@127.0.0.1:{port}/",
]


@pytest.mark.req("WB-06", "WB-07")
async def test_no_spelling_of_this_machine_is_contacted() -> None:
    async with listener("127.0.0.1", "::1") as seen:
        for url in PRIVATE_URLS:
            with pytest.raises(ArtifactRefused):
                await read(HttpsSources(), url.format(port=seen[0]))
        await asyncio.sleep(0)
        assert seen[1:] == []


@pytest.mark.req("WB-06")
@pytest.mark.parametrize("answer", [["127.0.0.1"], ["8.8.8.8", "127.0.0.1"], ["::ffff:127.0.0.1"], ["169.254.169.254"]])
async def test_a_public_name_of_a_private_address_is_not_contacted(answer: list[str]) -> None:
    dialled: list[str] = []

    async def dial(
        address: str, port: int, tls: ssl.SSLContext, name: str
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        dialled.append(address)
        raise OSError

    with pytest.raises(ArtifactRefused, match="not public"):
        await read(HttpsSources(resolve=Resolver(answer), dial=dial), "https://files.example/a")
    assert dialled == []


@pytest.mark.req("WB-06")
async def test_a_name_that_rebinds_is_connected_where_it_was_checked(place: TestOrigin) -> None:
    resolve = Resolver(["8.8.8.8"], ["127.0.0.1"])
    dialled: list[tuple[str, str]] = []

    async def dial(
        address: str, port: int, tls: ssl.SSLContext, name: str
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        dialled.append((address, name))
        raise OSError("no such network here")

    url = place.url(host="files.example")
    with pytest.raises(ArtifactRefused, match="reached"):
        await read(HttpsSources(resolve=resolve, dial=dial), url)
    assert (resolve.asked, dialled) == (["files.example"], [("8.8.8.8", "files.example")])
    with pytest.raises(ArtifactRefused, match="not public"):
        await read(HttpsSources(resolve=resolve, dial=dial), url)
    assert place.connections == 0


@pytest.mark.req("WB-06")
async def test_the_connection_itself_asks_no_resolver(place: TestOrigin, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: object, **__: object) -> object:
        raise AssertionError("a name was resolved")

    tls = ssl.create_default_context(cafile=place.ca)
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", refuse)
    _, writer = await dial_address("127.0.0.1", place.port, tls, "localhost")
    writer.transport.abort()


@pytest.mark.req("WB-06")
async def test_an_origin_is_allowed_exactly(place: TestOrigin) -> None:
    allowed = HttpsSources([place.allowed(), AllowedOrigin(Origin("files.localhost", place.port), None, place.ca)])
    async with listener("127.0.0.1") as seen:
        for url in (f"https://localhost:{seen[0]}/", place.url(host="127.0.0.1")):
            with pytest.raises(ArtifactRefused, match="not public"):
                await read(allowed, url)
        assert seen[1:] == []
    assert place.connections == 0


@pytest.mark.req("WB-06")
async def test_a_redirect_into_a_private_place_contacts_nobody(place: TestOrigin) -> None:
    async with listener("127.0.0.1") as seen:
        place.answer = f"HTTP/1.1 307 T\r\nLocation: https://127.0.0.1:{seen[0]}/\r\nContent-Length: 0\r\n\r\n".encode()
        with pytest.raises(ArtifactRefused, match="307"):
            await read(HttpsSources([place.allowed()]), place.url())
        assert seen[1:] == []


@pytest.mark.req("WB-11")
async def test_neither_the_log_nor_a_refusal_names_the_source(
    place: TestOrigin, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await read(HttpsSources([place.allowed()]), place.url("/hidden"))
    told = []
    nobody = HttpsSources([place.allowed()], Resolver(["127.0.0.9"]))
    for sources in (HttpsSources(), HttpsSources([AllowedOrigin(Origin("localhost", place.port))]), nobody):
        with pytest.raises(ArtifactRefused) as refused:
            await read(sources, place.url("/hidden"))
        told.append(str(refused.value))
    text = caplog.text + "".join(told)
    assert not [word for word in ("hidden", "localhost", str(place.port)) if word in text]
