"""Fetches artifact bodies over https from the places that may be asked (WB-06, WB-07). Knows no digest and no custody.

One request per connection: a name is resolved once, every address of it is checked, and the connection goes to a
checked address. Nothing here logs, and no failure names the source (WB-11).
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass

import h11

from emulator.artifacts.places import (
    AllowedOrigin,
    Origin,
    Place,
    PlaceRefused,
    check_public,
    find_allowed,
    literal_address,
    read_place,
)
from host.ports import ArtifactRefused

_READ_BYTES = 65536
_READABLE = frozenset(range(0x21, 0x7F))

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host and port to addresses; raises OSError or UnicodeError when there are none."""
Dial = Callable[[str, int, ssl.SSLContext, str], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
"""Address, port, TLS and the name to verify to an open connection; raises OSError."""


@dataclass(frozen=True, slots=True)
class FetchTimes:
    """Seconds of real time: to connect and shake hands, between two reads, for one body in all."""

    connect_s: float = 10.0
    idle_s: float = 15.0
    total_s: float = 120.0


async def resolve_name(host: str, port: int) -> Sequence[str]:
    """The system's answer."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))


async def dial_address(
    address: str, port: int, tls: ssl.SSLContext, name: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A TLS connection to exactly `address`, whose certificate is good for `name`."""
    return await asyncio.open_connection(address, port, ssl=tls, server_hostname=name)


class HttpsSources:
    """Where artifacts come from that nobody has uploaded. `allowed` is the operator's exact list."""

    def __init__(
        self,
        allowed: Sequence[AllowedOrigin] = (),
        resolve: Resolve = resolve_name,
        dial: Dial = dial_address,
        times: FetchTimes | None = None,
    ) -> None:
        self._allowed = tuple(allowed)
        self._resolve = resolve
        self._dial = dial
        self._times = times or FetchTimes()

    async def fetch(self, url: str, max_bytes: int) -> AsyncGenerator[bytes, None]:
        """The body behind `url` as it comes, at most `max_bytes`. Raises `ArtifactRefused` (WB-07)."""
        until_s = asyncio.get_running_loop().time() + self._times.total_s
        try:
            async with contextlib.aclosing(self._exchange(read_place(url), max_bytes, until_s)) as chunks:
                async for chunk in chunks:
                    yield chunk
        except PlaceRefused as error:
            raise ArtifactRefused(str(error)) from None
        except TimeoutError:
            raise ArtifactRefused("the source did not answer in time") from None
        except ssl.SSLError:
            raise ArtifactRefused("the source's TLS certificate or handshake is not acceptable") from None
        except (OSError, UnicodeError):
            raise ArtifactRefused("the source cannot be reached") from None
        except h11.ProtocolError:
            raise ArtifactRefused("the source does not speak proper HTTP") from None

    async def _exchange(self, place: Place, max_bytes: int, until_s: float) -> AsyncGenerator[bytes, None]:
        entry = find_allowed(self._allowed, place.origin)
        token = None if entry is None else await asyncio.to_thread(_read_token, entry)
        addresses = await self._addresses(place.origin, entry)
        tls = await asyncio.to_thread(_tls_for, entry)
        reader, writer = await self._connect(place.origin, addresses, tls)
        try:
            exchange = _Exchange(reader, self._times.idle_s, until_s)
            writer.write(exchange.request(place, token))
            async for chunk in exchange.body(max_bytes):
                yield chunk
        finally:
            writer.transport.abort()

    async def _addresses(self, origin: Origin, entry: AllowedOrigin | None) -> Sequence[str]:
        """Every address of the origin, checked; asked for once, so no later answer counts."""
        literal = literal_address(origin.host)
        if literal is not None:
            addresses: Sequence[str] = (literal,)
        else:
            async with asyncio.timeout(self._times.connect_s):
                addresses = tuple(await self._resolve(origin.host, origin.port))
        if entry is None:
            check_public(addresses)
        return addresses

    async def _connect(
        self, origin: Origin, addresses: Sequence[str], tls: ssl.SSLContext
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        failure: OSError = OSError("no address")
        async with asyncio.timeout(self._times.connect_s):
            for address in addresses:
                try:
                    return await self._dial(address, origin.port, tls, origin.host)
                except ssl.SSLError:
                    raise
                except OSError as error:
                    failure = error
        raise failure


class _Exchange:
    """One request and its answer on an open connection; `until_s` is the end of its time on the loop's clock."""

    def __init__(self, reader: asyncio.StreamReader, idle_s: float, until_s: float) -> None:
        self._reader = reader
        self._idle_s = idle_s
        self._until_s = until_s
        self._http = h11.Connection(h11.CLIENT)

    def request(self, place: Place, token: str | None) -> bytes:
        """The bytes of the request: nothing of the caller is in it, and no coding is asked for."""
        headers = [
            ("Host", place.origin.authority),
            ("Accept", "*/*"),
            ("Accept-Encoding", "identity"),
            ("User-Agent", "takohost"),
            ("Connection", "close"),
        ]
        if token is not None:
            headers.append(("Authorization", f"Bearer {token}"))
        head = self._http.send(h11.Request(method="GET", target=place.target, headers=headers))
        return (head or b"") + (self._http.send(h11.EndOfMessage()) or b"")

    async def body(self, max_bytes: int) -> AsyncIterator[bytes]:
        """The body of a proper answer, never more than `max_bytes` of it."""
        _check_head(await self._head(), max_bytes)
        size_bytes = 0
        while not isinstance(event := await self._next(), h11.EndOfMessage):
            if not isinstance(event, h11.Data):
                raise ArtifactRefused("the source's answer ended before its end")
            size_bytes += len(event.data)
            if size_bytes > max_bytes:
                raise ArtifactRefused(f"the source's body is larger than {max_bytes} bytes")
            yield bytes(event.data)

    async def _head(self) -> h11.Response:
        while isinstance(event := await self._next(), h11.InformationalResponse):
            pass
        if not isinstance(event, h11.Response):
            raise ArtifactRefused("the source gave no answer")
        return event

    async def _next(self) -> object:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            idle_until_s = asyncio.get_running_loop().time() + self._idle_s
            async with asyncio.timeout_at(min(self._until_s, idle_until_s)):
                self._http.receive_data(await self._reader.read(_READ_BYTES))
        return event


def _check_head(answer: h11.Response, max_bytes: int) -> None:
    if answer.status_code != 200:
        raise ArtifactRefused(f"the source answered {answer.status_code}, not 200: redirects are not followed")
    for name, value in answer.headers:
        codings = {word.strip().lower() for word in value.split(b",")}
        if name == b"content-encoding" and codings - {b"identity", b""}:
            raise ArtifactRefused("the source's answer has a content coding, which was not asked for")
        if name == b"content-length" and int(value) > max_bytes:
            raise ArtifactRefused(f"the source's body is larger than {max_bytes} bytes")


def _tls_for(entry: AllowedOrigin | None) -> ssl.SSLContext:
    """Verifies certificate and host name, always. Blocking."""
    ca_file = None if entry is None else entry.ca_file
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except OSError:
        raise ArtifactRefused("the host cannot read the authority's certificate for this origin") from None
    context.set_alpn_protocols(["http/1.1"])
    return context


def _read_token(entry: AllowedOrigin) -> str | None:
    """The host's own credential for the origin, as its file has it now. Blocking."""
    if entry.token_file is None:
        return None
    token = b""
    with contextlib.suppress(OSError):
        token = entry.token_file.read_bytes().strip()
    if not token or not _READABLE.issuperset(token):
        raise ArtifactRefused("the host cannot read its token for this origin")
    return token.decode("ascii")
