"""Sockets at one address: the kernel shares connections out as it is told, and says what waits."""

import socket
import sys
from collections import Counter
from collections.abc import Iterator

import pytest

from emulator.runtime.shared_port import has_queued, share_out, sibling_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a sibling is the same socket")

CLIENTS = 64


@pytest.fixture
def sockets() -> Iterator[list[socket.socket]]:
    """Three at one address."""
    found = [socket.create_server(("127.0.0.1", 0), backlog=CLIENTS)]
    found += [sibling_of(found[0]), sibling_of(found[0])]
    found[0].setblocking(False)
    yield found
    for each in found:
        each.close()


def connect(listeners: list[socket.socket], count: int = CLIENTS) -> Counter[int]:
    """How many of so many connections came to which socket; all are accepted."""
    clients = [socket.create_connection(listeners[0].getsockname()) for _ in range(count)]
    found: Counter[int] = Counter()
    for number, listener in enumerate(listeners):
        while True:
            try:
                listener.accept()[0].close()
            except BlockingIOError:
                break
            found[number] += 1
    for client in clients:
        client.close()
    assert found.total() == count
    return found


@pytest.mark.req("WD-03")
@pytest.mark.parametrize("among", [[0], [1], [2], [0, 1], [0, 2], [2, 1], [0, 1, 2]])
def test_connections_come_to_those_that_were_named(sockets: list[socket.socket], among: list[int]) -> None:
    share_out(sockets[0], among)
    assert connect(sockets).keys() == set(among)


@pytest.mark.req("WD-03")
def test_one_that_is_closed_gets_none(sockets: list[socket.socket]) -> None:
    share_out(sockets[0], [0, 1])
    sockets.pop().close()
    assert connect(sockets).keys() == {0, 1}
    sockets.pop().close()
    share_out(sockets[0], [0])
    assert connect(sockets).keys() == {0}


@pytest.mark.req("WD-03")
def test_what_waits_is_told(sockets: list[socket.socket]) -> None:
    share_out(sockets[0], [1])
    assert not any(map(has_queued, sockets))
    with socket.create_connection(sockets[0].getsockname()):
        assert [has_queued(each) for each in sockets] == [False, True, False]
        sockets[1].accept()[0].close()
        assert not any(map(has_queued, sockets))


@pytest.mark.req("WD-03")
def test_a_sibling_comes_beside_connections_that_were_taken_before() -> None:
    with socket.create_server(("127.0.0.1", 0)) as alone, socket.create_connection(alone.getsockname()):
        taken, _ = alone.accept()
        with taken, sibling_of(alone) as sibling:
            share_out(alone, [1])
            assert sibling.getsockname() == alone.getsockname()


@pytest.mark.req("WD-03")
def test_nobody_else_gets_the_port(sockets: list[socket.socket]) -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with pytest.raises(OSError, match="in use"):
            other.bind(sockets[0].getsockname())
