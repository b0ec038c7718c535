"""Heads that a front refuses, and how it says so."""

import logging

import pytest

from tests.emulator.front.fronts import HOST, document, serving, statuses

AFTER = b"GET /after HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"


@pytest.mark.req("HA-01", "HA-11")
@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"a" * 70_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"a" * 17_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + HOST + b"X: a\r\n" * 120 + b"\r\n", 431),
        (b"GET /" + b"a" * 17_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 431),
        (b"PoST / HTTP/1.1\r\n" + HOST + b"\r\n", 501),
        (b"post / HTTP/1.1\r\n" + HOST + b"\r\n", 501),
        (b"A" * 5_000 + b" / HTTP/1.1\r\n" + HOST + b"\r\n", 501),
        (b"CONNECT localhost:443 HTTP/1.1\r\n" + HOST + b"\r\n", 501),
        (b"CONNECT / HTTP/1.1\r\n" + HOST + b"\r\n", 501),
        (b"G ET / HTTP/1.1\r\n" + HOST + b"\r\n", 400),
        (b"GET  / HTTP/1.1\r\n" + HOST + b"\r\n", 400),
        (b"GET https://localhost/ HTTP/1.1\r\n" + HOST + b"\r\n", 400),
        (b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n", 400),
        (b"GET / HTTP/2.0\r\n" + HOST + b"\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + HOST + HOST + b"\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + HOST + b"X : y\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + HOST + b"X: \x00\r\n\r\n", 400),
        (b"GET /\xff HTTP/1.1\r\n" + HOST + b"\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 50 + b"\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: -4\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 99999999999999999999999\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: gzip, chunked\r\n\r\n", 501),
        (b"POST / HTTP/1.0\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + HOST + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n", 400),
    ],
)
async def test_a_head_that_is_not_plain_is_refused_in_one_line(
    raw: bytes, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving() as front:
        answer = await front.ask(raw + AFTER)
        assert statuses(answer) == [status]
        assert document(answer)[0] == status
        assert b"\r\nConnection: close\r\n" in answer or b"\r\nconnection: close\r\n" in answer
        assert front.app.seen == []
        assert statuses(await front.ask(AFTER)) == [200]
    lines = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert [record.name for record in lines] == ["takohost.front"]
    assert "Traceback" not in caplog.text


@pytest.mark.req("HA-01")
async def test_a_request_smuggled_behind_both_length_headers_reaches_nothing() -> None:
    both = b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    async with serving() as front:
        answer = await front.ask(both + b"GET /smuggled HTTP/1.1\r\n" + HOST + b"\r\n")
        assert statuses(answer) == [400]
        assert front.app.seen == []


async def test_the_refusal_of_a_head_request_has_no_body() -> None:
    async with serving() as front:
        answer = await front.ask(b"HEAD / HTTP/1.1\r\n" + HOST + b"Upgrade: websocket\r\n\r\n")
        assert statuses(answer) == [400]
        assert answer.endswith(b"\r\n\r\n")


async def test_an_offer_of_another_protocol_is_not_taken() -> None:
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n"
    async with serving() as front:
        answer = await front.ask(b"GET / HTTP/1.1\r\n" + HOST + offer + b"\r\n" + AFTER)
        assert statuses(answer) == [200, 200]


async def test_answers_come_in_order_and_the_refusal_last() -> None:
    good = b"POST /a HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\n\r\nabc"
    async with serving() as front:
        answer = await front.ask(good + good + b"G ET / HTTP/1.1\r\n\r\n" + AFTER)
        assert statuses(answer) == [200, 200, 400]
        assert front.app.seen == ["POST /a", "POST /a"]


async def test_the_end_of_a_connection_inside_a_head_is_clean(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as front:
        client = await front.connect()
        client.writer.write(b"GET / HTTP/1.1\r\nHost: lo")
        client.writer.write_eof()
        assert statuses(await client.rest()) in ([], [400])
    assert "Traceback" not in caplog.text
