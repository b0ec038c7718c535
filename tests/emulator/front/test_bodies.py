"""Bodies that are unread, endless, slow, truncated or wrongly framed."""

import asyncio

import pytest

from tests.emulator.front.fronts import HOST, QUICK, document, serving, statuses

AFTER = b"GET /after HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"


def post(path: str, length: int, *more: bytes) -> bytes:
    return (
        b"POST %s HTTP/1.1\r\n" % path.encode() + HOST + b"Content-Length: %d\r\n" % length + b"".join(more) + b"\r\n"
    )


@pytest.mark.req("HA-12")
async def test_an_unread_body_is_dropped_and_the_connection_goes_on() -> None:
    async with serving() as front:
        answer = await front.ask(post("/unread", 3_000_000) + b"x" * 3_000_000 + AFTER)
        assert statuses(answer) == [200, 200]
        assert front.app.seen == ["POST /unread", "GET /after"]


@pytest.mark.req("HA-12")
async def test_the_answer_comes_before_the_end_of_an_unread_body() -> None:
    async with serving() as front:
        client = await front.connect()
        client.writer.write(post("/unread", 10**12) + b"x" * 1_000_000)
        assert await client.answer() == (200, b"POST /unread 0")
        assert await client.rest() == b""


async def test_a_client_that_never_ends_its_body_is_left_after_a_while() -> None:
    async with serving() as front:
        client = await front.connect()
        client.writer.write(post("/unread", 10**12))
        assert await client.answer() == (200, b"POST /unread 0")
        with pytest.raises(OSError):
            async with asyncio.timeout(5):
                while True:
                    client.writer.write(b"x" * 65536)
                    await client.writer.drain()
        assert statuses(await front.ask(AFTER)) == [200]


async def test_a_slow_body_is_refused_at_its_deadline(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as front:
        answer = await front.ask(post("/", 10) + b"x")
        assert statuses(answer) == [408]
        assert document(answer) == [408, f"the request's body took longer than {QUICK.body_s:g} s"]
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(
    "chunks",
    [
        b"zz\r\nabc\r\n0\r\n\r\n",
        b"-1\r\n\r\n0\r\n\r\n",
        b"FFFFFFFFFFFFFFFFFFFFFFFFF\r\nabc",
        b"3;a=" + b"b" * 200_000 + b"\r\nabc\r\n0\r\n\r\n",
        b"3\r\nabcdef\r\n0\r\n\r\n",
        b"3\r\nabc\r\n0\r\n" + b"T: " + b"t" * 200_000 + b"\r\n\r\n",
    ],
)
async def test_a_wrongly_framed_body_ends_the_connection(chunks: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as front:
        head = b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
        answer = await front.ask(head + chunks + AFTER)
        assert statuses(answer) in ([400], [431])
        assert "GET /after" not in front.app.seen
        assert statuses(await front.ask(AFTER)) == [200]
    assert "Traceback" not in caplog.text


async def test_extensions_and_trailers_of_chunks_change_nothing() -> None:
    async with serving() as front:
        head = b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
        answer = await front.ask(head + b"3;a=b\r\nabc\r\n0\r\nT: t\r\n\r\n" + AFTER)
        assert statuses(answer) == [200, 200]
        assert b"POST / 3" in answer


async def test_a_body_that_is_cut_off_is_no_request(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as front:
        client = await front.connect()
        client.writer.write(post("/", 10) + b"abc")
        client.writer.write_eof()
        assert statuses(await client.rest()) in ([], [400])
        assert statuses(await front.ask(AFTER)) == [200]
    assert "Traceback" not in caplog.text
