"""When posts are opened and left, and where connections go meanwhile; the posts are played, the sockets are real."""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Mapping

import pytest

from emulator.runtime.crew_size import CALM_S
from emulator.runtime.gateway_post import GatewayPost, Signals
from emulator.runtime.gateway_posts import GatewayPosts
from emulator.runtime.gateway_process import GatewayProcess
from emulator.runtime.process import WorkerdFailed
from emulator.runtime.shared_port import has_queued
from host.model.time import RealTime

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere posts share one socket")
CLIENTS = 48


class Post(GatewayPost):
    """Accepts nothing by itself: the test does."""

    def __init__(self, sockets: Mapping[str, socket.socket], signals: Signals) -> None:
        self.listener = sockets["public"]
        self.signals = signals
        self.is_answering = True
        self.may_open = asyncio.Event()
        self.fault: Exception | None = None
        self.has_left = False

    @property
    def is_able(self) -> bool:
        return self.is_answering

    @property
    def process(self) -> GatewayProcess | None:
        return self if self.is_answering else None  # type: ignore[return-value]

    @property
    def live(self) -> frozenset[GatewayProcess]:
        return frozenset()

    async def open(self) -> None:
        await self.may_open.wait()
        if self.fault is not None:
            raise self.fault

    async def rest(self) -> None:
        pass

    async def leave(self) -> None:
        self.has_left = True

    async def close(self) -> None:
        pass

    def answer(self, is_answering: bool) -> None:
        self.is_answering = is_answering
        self.signals.on_change()

    def accept(self) -> int:
        """How many connections waited here."""
        count = 0
        while has_queued(self.listener):
            self.listener.accept()[0].close()
            count += 1
        return count


class Row:
    """The posts on one address."""

    def __init__(self, most: int = 2) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=CLIENTS)
        self.posts: list[Post] = []
        self.clients: list[socket.socket] = []
        self.time = Skipping()
        self.row = GatewayPosts(self._make, {"public": self.listener}, {}, self._dismiss, most, self.time)

    def _make(self, sockets: Mapping[str, socket.socket], signals: Signals) -> GatewayPost:
        self.posts.append(Post(sockets, signals))
        return self.posts[-1]

    async def _dismiss(self, process: GatewayProcess) -> None:
        raise AssertionError("a post dismisses its processes itself")

    async def grow(self) -> None:
        """A second post, open."""
        self.posts[0].signals.on_load(1.0)
        await turns()
        self.posts[-1].may_open.set()
        await turns()

    def calm(self) -> None:
        self.time.ahead_s += CALM_S + 1
        self.posts[0].signals.on_load(0.0)

    def speaks_to(self, number: int) -> bool:
        return id(self.row.process) == id(self.posts[number])

    def shares(self) -> list[bool]:
        """Which posts get any of many new connections."""
        self.clients += [socket.create_connection(self.listener.getsockname()) for _ in range(CLIENTS)]
        found = [post.accept() for post in self.posts if post.listener.fileno() >= 0]
        assert sum(found) == CLIENTS
        return [count > 0 for count in found]


class Skipping(RealTime):
    ahead_s = 0.0

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.ahead_s

    async def sleep_s(self, seconds: float) -> None:
        await asyncio.sleep(0)


async def turns() -> None:
    for _ in range(8):
        await asyncio.sleep(0)


@pytest.fixture
async def row() -> AsyncIterator[Row]:
    row = Row()
    yield row
    await row.row.close()
    for each in (row.listener, *row.clients):
        each.close()


@pytest.mark.req("MW-14")
async def test_connections_come_to_a_new_post_only_once_it_answers(row: Row) -> None:
    assert row.shares() == [True]
    row.posts[0].signals.on_load(1.0)
    await turns()
    assert row.shares() == [True, False]
    row.posts[1].may_open.set()
    await turns()
    assert row.shares() == [True, True]


@pytest.mark.req("MW-14")
async def test_connections_avoid_a_post_whose_event_loop_does_not_turn(row: Row) -> None:
    await row.grow()
    row.posts[0].answer(False)
    assert row.shares() == [False, True]
    assert row.speaks_to(1)
    row.posts[1].answer(False)
    assert row.shares() == [True, True]
    row.posts[0].answer(True)
    assert row.shares() == [True, False]
    row.posts[1].answer(True)
    assert row.shares() == [True, True]
    assert row.speaks_to(0)


@pytest.mark.req("MW-14")
async def test_the_youngest_leaves_after_what_waits_for_it_was_accepted(row: Row) -> None:
    await row.grow()
    row.posts[0].answer(False)
    row.clients.append(socket.create_connection(row.listener.getsockname()))
    row.posts[0].answer(True)
    row.calm()
    await turns()
    assert [post.has_left for post in row.posts] == [False, False]
    row.clients += [socket.create_connection(row.listener.getsockname()) for _ in range(CLIENTS)]
    assert (row.posts[0].accept(), row.posts[1].accept()) == (CLIENTS, 1)
    async with asyncio.timeout(30):
        while row.posts[1].listener.fileno() >= 0:
            await asyncio.sleep(0.005)
    assert [post.has_left for post in row.posts] == [False, True]
    assert row.shares() == [True]
    await row.grow()
    assert row.shares() == [True, True]


@pytest.mark.req("MW-14")
async def test_a_post_that_does_not_start_is_given_up(row: Row) -> None:
    row.posts[0].signals.on_load(1.0)
    await turns()
    row.posts[1].fault = WorkerdFailed("no")
    row.posts[1].may_open.set()
    await turns()
    assert row.posts[1].listener.fileno() < 0
    assert (len(row.posts), row.shares()) == (2, [True])


@pytest.mark.req("MW-14")
async def test_where_addresses_cannot_be_shared_one_post_does_all(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(listener: socket.socket) -> socket.socket:
        raise OSError("not here")

    monkeypatch.setattr("emulator.runtime.gateway_posts.sibling_of", refuse)
    for _ in range(3):
        row.posts[0].signals.on_load(1.0)
        await turns()
    assert (len(row.posts), row.shares()) == (1, [True])
