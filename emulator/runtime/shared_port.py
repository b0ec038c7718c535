"""Several listening sockets at one address, and among which of them the kernel shares out new connections. Linux can;
elsewhere a sibling is the same socket once more, and whoever is first takes a connection.

Knows no process: sockets are named by the order in which they came to the address.
"""

import ctypes
import socket
import struct
import sys
from collections.abc import Sequence

_CAN_SHARE = sys.platform == "linux"
_BACKLOG = 512
_SO_ATTACH_REUSEPORT_CBPF = 51
_LOAD, _MODULO, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x94, 0x15, 0x06
_RANDOM = 0xFFFFF000 + 56
_QUEUED_AT = 24
"""Of `tcp_info`: what a listening socket has queued stands where others tell of segments that were not acknowledged."""


def sibling_of(listener: socket.socket) -> socket.socket:
    """A further listening socket at the same address, with a queue of its own. Raises `OSError`."""
    if not _CAN_SHARE:
        return listener.dup()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # now: a second host is still refused the port
    sibling = socket.socket(listener.family, listener.type)
    try:
        sibling.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sibling.setsockopt(
            socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
        )  # beside connections taken before the other was set
        sibling.bind(listener.getsockname())
        sibling.listen(_BACKLOG)
    except OSError:
        sibling.close()
        raise
    sibling.setblocking(False)
    return sibling


def share_out(listener: socket.socket, among: Sequence[int]) -> None:
    """From now on new connections go to one of these of the sockets at the address of `listener`, at random. A number
    is the order in which a socket came there; one that is closed gives its number to the last.
    """
    if not _CAN_SHARE:
        return
    chosen = [(_JUMP_IF_EQUAL, 0, 1, place, _RETURN, 0, 0, number) for place, number in enumerate(among[:-1])]
    steps = [(_LOAD, 0, 0, _RANDOM), (_MODULO, 0, 0, len(among))]
    steps += [step for pair in chosen for step in (pair[:4], pair[4:])]
    steps.append((_RETURN, 0, 0, among[-1]))
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    told = struct.pack("HP", len(steps), ctypes.addressof(program))
    listener.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_REUSEPORT_CBPF, told)


def has_queued(listener: socket.socket) -> bool:
    """Whether connections wait there for somebody to accept them; False where nobody can tell."""
    if not _CAN_SHARE:
        return False
    told = listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _QUEUED_AT + 4)
    return int.from_bytes(told[_QUEUED_AT:], sys.byteorder) > 0
