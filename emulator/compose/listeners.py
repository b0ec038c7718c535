"""Binds the host's loopback listening sockets before anything else is touched. Knows no protocol spoken on them."""

import socket
from dataclasses import dataclass

from emulator.compose.errors import SurroundingsWrong

LOOPBACK = "127.0.0.1"
INGRESS_PORT = 8787
_BACKLOG = 512


@dataclass(frozen=True, slots=True)
class ListenerPorts:
    """Ports asked for: 0 is any; `ingress` None is 8787 when free and any otherwise, `secure` is over TLS."""

    api: int = 0
    ingress: int | None = None
    secure: int = 0
    management: int = 0


@dataclass(frozen=True, slots=True)
class Listeners:
    """Listening sockets: connections queue from the moment they exist."""

    api: socket.socket
    ingress: socket.socket
    secure: socket.socket
    management: socket.socket

    @property
    def all(self) -> tuple[socket.socket, ...]:
        return (self.api, self.ingress, self.secure, self.management)

    def close(self) -> None:
        for listener in self.all:
            listener.close()


def address_of(listener: socket.socket) -> str:
    """`host:port` of a bound socket."""
    host, port = listener.getsockname()[:2]
    return f"{host}:{port}"


def bind_all(ports: ListenerPorts) -> Listeners:
    """Bind every listener or none. Raises `SurroundingsWrong` that names the occupied port."""
    bound: list[socket.socket] = []
    try:
        bound.append(_listen(ports.api, "--api-port"))
        bound.append(_listen_ingress(ports.ingress))
        bound.append(_listen(ports.secure, "--https-port"))
        bound.append(_listen(ports.management, "--management-port"))
    except SurroundingsWrong:
        for listener in bound:
            listener.close()
        raise
    return Listeners(*bound)


def _listen_ingress(port: int | None) -> socket.socket:
    if port is not None:
        return _listen(port, "--ingress-port")
    try:
        return _listen(INGRESS_PORT, "--ingress-port")
    except SurroundingsWrong:
        return _listen(0, "--ingress-port")


def _listen(port: int, option: str) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((LOOPBACK, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        reason = (error.strerror or "unknown reason").lower()
        raise SurroundingsWrong(f"cannot listen on {LOOPBACK}:{port} ({option}): {reason}") from error
    listener.setblocking(False)
    return listener
