"""Bodies on their way through a gateway: counted until they end, forwarded as they come, never gathered."""

import asyncio
import gzip
from collections.abc import AsyncIterator

import pytest

from emulator.runtime.identity import figures_of
from tests.emulator.runtime.gateways import DEADLINE_S, Ingress

MIB = 1024 * 1024
ENDLESS = (
    "const piece = new Uint8Array(65536); let n = 0;"
    "return new Response(new ReadableStream({ pull(c) { pulled = ++n; c.enqueue(piece); } }));"
)
FORMS = {
    "a stream of the app's own": "return new Response(new ReadableStream({ async pull(c) { c.enqueue(await next()); } }));",
    "a pipe": "const t = new TransformStream(); (async () => { const w = t.writable.getWriter(); for (;;) await w.write(await next()); })(); return new Response(t.readable);",
    "a pipe of known length": "const t = new FixedLengthStream(9000000); (async () => { const w = t.writable.getWriter(); for (;;) await w.write(await next()); })(); return new Response(t.readable);",
    "the body of the request": "return new Response(request.body);",
    "many bytes at once": "return new Response(new Uint8Array(32 * 1024 * 1024));",
}
NEXT = "const next = async () => { await scheduler.wait(1); return new Uint8Array(10); };"
EARLY = "const a = new TextEncoder().encode('early'); return new Response(new ReadableStream({ start(c) { c.enqueue(a); give = () => { c.enqueue(a); c.close(); }; } }));"


async def executes(ingress: Ingress, wanted: bool) -> None:
    """Return once the gateway says so of Version v1."""
    async with asyncio.timeout(DEADLINE_S):
        while await ingress.gateway.is_executing("v1") is not wanted:
            await asyncio.sleep(0.002)


async def posted(ingress: Ingress) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A POST whose body has begun and goes on."""
    reader, writer = await asyncio.open_connection("127.0.0.1", ingress.port, limit=1000)
    writer.write(b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
    return reader, writer


async def opened(ingress: Ingress) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """The same, with the status of its answer read."""
    reader, writer = await posted(ingress)
    assert (await asyncio.wait_for(reader.readline(), DEADLINE_S)).startswith(b"HTTP/1.1 200")
    return reader, writer


async def wait_for_refusal(port: int) -> None:
    """Return once nobody accepts connections any more."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                return
            writer.close()
            await asyncio.sleep(0.002)


@pytest.mark.req("WV-09")
@pytest.mark.parametrize("form", FORMS)
async def test_a_version_executes_while_a_body_is_under_way(ingress: Ingress, form: str) -> None:
    await ingress.serve_handler(FORMS[form], NEXT)
    _, writer = await opened(ingress)
    for _ in range(3):
        assert await ingress.gateway.is_executing("v1")
    writer.close()
    await executes(ingress, False)


@pytest.mark.req("WV-09")
async def test_a_body_that_ended_or_broke_counts_no_more(ingress: Ingress) -> None:
    body = (
        "if (request.url.endsWith('/broken')) return new Response(new ReadableStream({ async pull(c) {"
        "await scheduler.wait(1); c.error(new Error('broken')); } }));" + EARLY
    )
    await ingress.serve_handler(
        f"if (request.url.endsWith('/give')) {{ give(); return new Response('given'); }} {body}", "let give;"
    )
    async with ingress.client.stream("GET", "/") as answer:
        pieces = answer.aiter_raw()
        assert await anext(pieces) == b"early"
        assert await ingress.gateway.is_executing("v1")
        assert await ingress.text("/give") == "given"
        assert [piece async for piece in pieces] == [b"early"]
    await executes(ingress, False)
    with pytest.raises(Exception, match=r"."):
        await ingress.client.get("/broken")
    await executes(ingress, False)


@pytest.mark.req("WV-09", "WD-07")
async def test_a_drain_waits_for_a_body_under_way(ingress: Ingress) -> None:
    await ingress.serve_handler("return new Response(request.body);")
    reader, writer = await opened(ingress)
    assert await asyncio.wait_for(reader.readuntil(b"first"), DEADLINE_S)
    draining = asyncio.create_task(ingress.gateway.drain())
    await wait_for_refusal(ingress.port)
    assert not draining.done()
    writer.write(b"5\r\nother\r\n")
    assert await asyncio.wait_for(reader.readuntil(b"other"), DEADLINE_S)
    assert not draining.done()
    writer.write(b"0\r\n\r\n")
    await asyncio.wait_for(draining, DEADLINE_S)
    writer.close()


@pytest.mark.req("MW-14")
@pytest.mark.parametrize("size", [10, 65536, 65537, 3 * MIB])
async def test_a_body_of_known_length_says_so(ingress: Ingress, size: int) -> None:
    await ingress.serve_handler(f"return new Response(new Uint8Array({size}).fill(7));")
    answer = await ingress.client.get("/")
    assert answer.headers["content-length"] == str(size)
    assert answer.content == b"\7" * size


@pytest.mark.req("MW-14")
async def test_a_coded_body_keeps_its_bytes(ingress: Ingress) -> None:
    coded = gzip.compress(b"plain text", mtime=12345)
    body = (
        f"const bytes = new Uint8Array({list(coded)});"
        "const stream = new ReadableStream({ start(c) { c.enqueue(bytes); c.close(); } });"
        "return new Response(stream, { encodeBody: 'manual', headers: { 'content-encoding': 'gzip' } });"
    )
    await ingress.serve_handler(body)
    async with ingress.client.stream("GET", "/") as answer:
        assert answer.headers["content-encoding"] == "gzip"
        assert b"".join([piece async for piece in answer.aiter_raw()]) == coded


@pytest.mark.req("MW-14")
async def test_a_reader_that_waits_holds_the_writer_back(ingress: Ingress) -> None:
    await ingress.serve_handler(
        "if (request.url.endsWith('/pulled')) return Response.json(pulled);" + ENDLESS, "let pulled = 0;"
    )
    _, writer = await opened(ingress)
    seen, before = 1, 0
    while seen != before:
        before, seen = seen, int(str(await ingress.json("/pulled")))
        await asyncio.sleep(0.05)
    assert seen * 65536 < 48 * MIB
    writer.close()
    await executes(ingress, False)


@pytest.mark.req("MW-14")
async def test_a_handler_that_waits_holds_the_client_back(ingress: Ingress) -> None:
    await ingress.serve_handler("await new Promise(() => {});")
    _, writer = await posted(ingress)
    sent, before, piece = 0, -1, b"10000\r\n" + b"x" * 65536 + b"\r\n"
    transport = writer.transport
    while sent != before:
        before = sent
        while transport.get_write_buffer_size() == 0 and sent < 64 * MIB:
            writer.write(piece)
            sent += 65536
        await asyncio.sleep(0.05)
    assert sent < 48 * MIB
    transport.abort()


class Memory:
    """The most resident memory that a gateway came to, over what it had when this was made."""

    def __init__(self, ingress: Ingress) -> None:
        self._ingress = ingress
        self._before = self._now()
        self._most = self._before

    def _now(self) -> int:
        assert self._ingress.gateway.pid is not None
        figures = figures_of(self._ingress.gateway.pid)
        assert figures is not None
        return figures.rss_bytes

    def look(self) -> None:
        self._most = max(self._most, self._now())

    @property
    def grown_bytes(self) -> int:
        return self._most - self._before


@pytest.mark.long
@pytest.mark.req("MW-14")
async def test_an_upload_of_64_mib_leaves_memory_flat(ingress: Ingress) -> None:
    """The collector lets the pieces of some 100 MiB lie about, whatever the size: the first body is for that."""
    await ingress.serve_handler(
        "let n = 0; for await (const piece of request.body) n += piece.length; return Response.json(n);"
    )
    for size_mib in (128, 64):
        grown = await upload(ingress, size_mib)
    assert grown < 32 * MIB


async def upload(ingress: Ingress, size_mib: int) -> int:
    await ingress.client.post("/", content=b"warm")
    memory = Memory(ingress)

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(size_mib * 16):
            memory.look()
            yield b"x" * 65536

    answer = await ingress.client.post("/", content=pieces())
    assert answer.json() == size_mib * MIB
    return memory.grown_bytes


@pytest.mark.long
@pytest.mark.req("MW-14")
async def test_a_download_of_64_mib_leaves_memory_flat(ingress: Ingress) -> None:
    await ingress.serve_handler(
        "let n = 16 * Number(new URL(request.url).searchParams.get('mib')); const piece = new Uint8Array(65536);"
        "return new Response(new ReadableStream({ pull(c) { if (n-- > 0) c.enqueue(piece); else c.close(); } }));"
    )
    for size_mib in (128, 64):
        grown = await download(ingress, size_mib)
    assert grown < 32 * MIB


async def download(ingress: Ingress, size_mib: int) -> int:
    await ingress.client.get("/")
    memory, total = Memory(ingress), 0
    async with ingress.client.stream("GET", f"/?mib={size_mib}") as answer:
        async for piece in answer.aiter_raw():
            total += len(piece)
            memory.look()
    assert total == size_mib * MIB
    return memory.grown_bytes
