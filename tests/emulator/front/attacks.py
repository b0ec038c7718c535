"""Hostile requests as values, made from a seeded random source: what is sent, how, and in what kind of connection."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle, islice
from random import Random

from host.http.routes import ROOT
from tests.host.api import form_url

HOST = b"Host: localhost\r\n"
MEBIBYTE = 1024 * 1024
HUGE = 100 * MEBIBYTE


@dataclass(frozen=True)
class Attack:
    """`sent`, then `filler_bytes` of filling, then a wait for answers of at most `patience_s`.

    `is_tls` False speaks plainly to the TLS port; `is_rude` resets the connection instead of reading anything.
    `expected` are the statuses that answers may have; empty takes any.
    """

    name: str
    sent: bytes
    filler_bytes: int = 0
    patience_s: float = 0.3
    is_tls: bool = True
    is_rude: bool = False
    expected: frozenset[int] = frozenset()


def create(body: bytes, *fields: bytes, length: int | None = None) -> bytes:
    """A POST that would create a Worker if `body` were right."""
    named = [b"Content-Type: application/json", b"Idempotency-Key: hostile-0123456789", *fields]
    if length is not None or not fields:
        named.append(b"Content-Length: %d" % (len(body) if length is None else length))
    return b"POST %s/resources HTTP/1.1\r\n" % ROOT.encode() + HOST + b"\r\n".join(named) + b"\r\n\r\n" + body


def envelope(spec: bytes) -> bytes:
    head = json.dumps({"form": form_url("ModuleWorker"), "space": "hostile", "name": "w"}).encode()
    return head[:-1] + b',"spec":' + spec + b"}"


GET = b"GET /.well-known/takoform/v2 HTTP/1.1\r\n" + HOST + b"\r\n"
CHUNKED = b"Transfer-Encoding: chunked"


def truncated_body(random: Random) -> Attack:
    length = random.randrange(20, 100_000)
    return Attack("truncated body", create(b'{"form":', length=length), patience_s=0.05, is_rude=random.random() < 0.5)


def pipelined_garbage(random: Random) -> Attack:
    return Attack(
        "pipelined garbage", GET * random.randrange(3) + random.randbytes(random.randrange(1, 400)) + b"\r\n\r\n"
    )


def slow_body(random: Random) -> Attack:
    return Attack("slow body", create(b"{", length=1000), patience_s=random.choice((0.05, 0.3)), is_rude=True)


def huge_body(random: Random) -> Attack:
    sent = random.choice(
        (create(b"", length=HUGE), b"POST /nowhere HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n" % HUGE)
    )
    return Attack("100 MB body", sent, HUGE, 20.0, expected=frozenset({413, 404}))


def huge_chunked_body(random: Random) -> Attack:
    sent = create(b"%x\r\n" % HUGE, CHUNKED)
    return Attack("100 MB chunked body", sent, HUGE, 20.0, expected=frozenset({413}))


def bad_utf8(random: Random) -> Attack:
    piece = random.choice(
        (b'"\xff"', b'"\xe2\x82', b'"\xed\xa0\x80"', b'"\\ud800"', b'"\xc0\xaf"', b'"\xf5\x80\x80\x80"')
    )
    return Attack("bad UTF-8", create(envelope(b'{"a":' + piece + b"}")), expected=frozenset({400}))


def bad_json(random: Random) -> Attack:
    spec = random.choice((b"NaN", b"1e400", b"9" * 4301, b"[" * 20_000, b'{"a":1,"a":1}', b"[1,]", b"", b"\x00", b"01"))
    return Attack("bad JSON", create(envelope(spec)), expected=frozenset({400}))


def large_json(random: Random) -> Attack:
    """Within the size limit, and as much work as a body can be."""
    piece = random.choice((b"[],", b"{},", b"1,", b'"",', b"1e1,", b"1.5,"))
    spec = b'{"a":[' + (piece * (1_000_000 // len(piece)))[:-1] + b"]}"
    return Attack("large JSON", create(envelope(spec)), patience_s=10.0, expected=frozenset({422}))


def both_lengths(random: Random) -> Attack:
    sent = create(b"0\r\n\r\n" + GET, CHUNKED, length=random.choice((0, 4, 5)))
    return Attack("both length headers", sent, expected=frozenset({400}))


def nul(random: Random) -> Attack:
    sent = random.choice(
        (
            b"GET /\x00 HTTP/1.1\r\n" + HOST + b"\r\n",
            b"GET / HTTP/1.1\r\nX: a\x00b\r\n" + HOST + b"\r\n",
            b"GET %s/resources/%%00 HTTP/1.1\r\n" % ROOT.encode() + HOST + b"\r\n",
            b"GET %s/resources?space=a%%00 HTTP/1.1\r\n" % ROOT.encode() + HOST + b"\r\n",
            b"\x00" * random.randrange(1, 100) + b"\r\n\r\n",
        )
    )
    return Attack("NUL", sent, expected=frozenset({400, 404}))


def chunk_sizes(random: Random) -> Attack:
    size = random.choice(
        (b"F" * 40, b"FFFFFFFFFFFFFFFFFFFF", b"-1", b"0x10", b"10_0", b" 10", b"", b"7fffffffffffffff")
    )
    return Attack("chunk sizes", create(size + b"\r\nabc\r\n", CHUNKED), patience_s=0.1)


def chunk_extensions(random: Random) -> Attack:
    body = b"".join(b"1;x=%s\r\n{\r\n" % (b"y" * random.randrange(1, 300)) for _ in range(200)) + b"0\r\n\r\n"
    return Attack("chunk extensions", create(body, CHUNKED), expected=frozenset({400}))


def many_fields(random: Random) -> Attack:
    fields = random.choice(
        (b"X: " + b"a" * 70_000 + b"\r\n", b"X: a\r\n" * 5_000, (b"X: a\r\n " + b"b" * 100 + b"\r\n") * 300)
    )
    return Attack("large heads", b"GET / HTTP/1.1\r\n" + HOST + fields + b"\r\n", expected=frozenset({431, 400}))


def methods(random: Random) -> Attack:
    word = random.choice((b"CONNECT", b"PoST", b"G ET", b"A" * 5_000, b"", b"GET\t", b"\xffET", b"TRACE"))
    sent = word + b" %s/resources HTTP/1.1\r\n" % ROOT.encode() + HOST + b"\r\n"
    return Attack("methods", sent, expected=frozenset({400, 405, 501}))


def hosts(random: Random) -> Attack:
    value = random.choice((b"x/y?z=", b"a@b", b"", b"a\r\nHost: b", b"a b", b"\xff", b"localhost:99999999", b"[::1"))
    return Attack("Host headers", b"GET / HTTP/1.1\r\nHost: " + value + b"\r\n\r\n", expected=frozenset({400}))


def other_protocols(random: Random) -> Attack:
    sent = random.choice(
        (
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00" * 100,
            b"GET / HTTP/1.1\r\n" + HOST + b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n\x81\x05hello",
            b"GET / HTTP/1.1\r\n" + HOST + b"Connection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n",
            b"GET / HTTP/9.9\r\n" + HOST + b"\r\n",
        )
    )
    return Attack("other protocols", sent, expected=frozenset({400, 404}))


def mutated(random: Random) -> Attack:
    """A right request with some bytes changed, dropped or doubled."""
    data = bytearray(create(envelope(b'{"a":1}')) + GET)
    for _ in range(random.randrange(1, 8)):
        at = random.randrange(len(data))
        data[at : at + random.randrange(4)] = random.randbytes(random.randrange(4))
    return Attack("mutated request", bytes(data))


def no_tls(random: Random) -> Attack:
    sent = random.choice((GET, random.randbytes(500), b"\x16\x03\x01\x40\x00" + random.randbytes(300), b"\x16\x03"))
    return Attack("no TLS", sent, is_tls=False, patience_s=0.2)


def half_open(random: Random) -> Attack:
    return Attack("half open", random.choice((b"", b"GET / HT")), patience_s=0.1, is_tls=random.random() < 0.5)


def unread_answers(random: Random) -> Attack:
    return Attack("unread answers", GET * random.randrange(100, 1_000), is_rude=True, patience_s=0.2)


SMALL: tuple[Callable[[Random], Attack], ...] = (
    truncated_body,
    pipelined_garbage,
    slow_body,
    bad_utf8,
    bad_json,
    both_lengths,
    nul,
    chunk_sizes,
    chunk_extensions,
    many_fields,
    methods,
    hosts,
    other_protocols,
    mutated,
    no_tls,
    half_open,
    unread_answers,
)


def attacks(seed: int, count: int, huge: int) -> Iterator[Attack]:
    """`count` attacks of every kind in turn; `huge` of them send 100 MB."""
    random = Random(seed)
    large = (huge_body, huge_chunked_body)
    kinds = [*islice(cycle(SMALL), count - huge), *islice(cycle(large), huge)]
    random.shuffle(kinds)
    for kind in kinds:
        yield kind(random)
