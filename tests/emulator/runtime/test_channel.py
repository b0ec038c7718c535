"""The channel against a WebSocket server that behaves and one that does not."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from websockets.asyncio.server import ServerConnection, unix_serve

from emulator.runtime.channel import MAX_MESSAGE_BYTES, Channel, ChannelClosed

DEADLINE_S = 10.0


@dataclass
class Ear:
    """What a channel told."""

    texts: list[str] = field(default_factory=list)
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    async def hear(self, count: int) -> list[str]:
        async with asyncio.timeout(DEADLINE_S):
            while len(self.texts) < count:
                await asyncio.sleep(0.001)
        return self.texts


@asynccontextmanager
async def joined(
    path: Path, serve: Callable[[ServerConnection], Awaitable[None]]
) -> AsyncIterator[tuple[Channel, Ear]]:
    """A channel to a server that runs `serve`."""
    ear = Ear()
    async with unix_serve(serve, str(path), compression=None, max_size=None):
        channel = await Channel.connect(path, ear.texts.append, ear.closed.set)
        try:
            yield channel, ear
        finally:
            channel.abort()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s"


async def echo(server: ServerConnection) -> None:
    async for message in server:
        await server.send(message)


async def test_texts_arrive_whole_and_in_order(path: Path) -> None:
    sent = [f"{n} é😀 " + "x" * n * 1000 for n in range(100)]
    async with joined(path, echo) as (channel, ear):
        for text in sent:
            channel.send(text)
        assert await ear.hear(100) == sent


@pytest.mark.req("DW-35")
async def test_a_message_in_parts_holds_nobody_up_and_arrives_whole_and_in_order(path: Path) -> None:
    made: list[int] = []

    def parts() -> Iterator[str]:
        for number in range(20):
            made.append(number)
            yield f"{number} é😀"

    async with joined(path, echo) as (channel, ear):
        channel.send("before")
        channel.send_parts(parts())
        channel.send("between")
        channel.send_parts(iter(("in ", "two")))
        channel.send_parts(iter(("in one",)))
        channel.send("after")
        assert made == [0, 1]
        await asyncio.sleep(0)
        assert made == [0, 1, 2], "one in a turn of the loop"
        whole = "".join(f"{number} é😀" for number in range(20))
        assert await ear.hear(6) == ["before", whole, "between", "in two", "in one", "after"]
        channel.send("at rest")
        assert (await ear.hear(7))[-1] == "at rest"


@pytest.mark.req("DW-39")
async def test_parts_that_are_left_at_the_end_are_not_made(path: Path) -> None:
    made: list[int] = []

    def parts() -> Iterator[str]:
        for number in range(1_000_000):
            made.append(number)
            yield "x"

    async with joined(path, echo) as (channel, ear):
        channel.send_parts(parts())
        channel.send("nobody hears")
        channel.abort()
        await asyncio.wait_for(ear.closed.wait(), DEADLINE_S)
        channel.send_parts(parts())
        assert (made, ear.texts) == ([0, 1], [])


async def test_a_fragmented_text_arrives_as_one(path: Path) -> None:
    async def fragments(server: ServerConnection) -> None:
        await server.send(["a", "b", "c"])
        await server.ping()
        await server.send("d")

    async with joined(path, fragments) as (_, ear):
        assert await ear.hear(2) == ["abc", "d"]


async def test_the_end_of_the_other_side_is_told_once_and_sending_goes_nowhere(path: Path) -> None:
    async def leave(server: ServerConnection) -> None:
        await server.send("last")

    async with joined(path, leave) as (channel, ear):
        await asyncio.wait_for(ear.closed.wait(), DEADLINE_S)
        assert (ear.texts, channel.fault) == (["last"], None)
        channel.send("nobody hears")


@pytest.mark.req("DW-39")
async def test_a_text_that_is_too_large_breaks_the_channel(path: Path) -> None:
    async def flood(server: ServerConnection) -> None:
        await server.send("x" * (MAX_MESSAGE_BYTES + 1))

    async with joined(path, flood) as (channel, ear):
        await asyncio.wait_for(ear.closed.wait(), DEADLINE_S)
        assert ear.texts == []
        assert channel.fault is not None


@pytest.mark.req("DW-39")
async def test_nothing_is_heard_after_an_abort(path: Path) -> None:
    async with joined(path, echo) as (channel, ear):
        channel.send("one")
        await ear.hear(1)
        channel.send("two")
        channel.abort()
        await asyncio.wait_for(ear.closed.wait(), DEADLINE_S)
        assert ear.texts == ["one"]


async def test_a_server_that_is_no_websocket_is_refused(path: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_unix_server(answer, path):
        with pytest.raises(ChannelClosed):
            await Channel.connect(path, lambda text: None, lambda: None)
