"""Carries attacks out against a host over its TLS port and judges what comes back."""

import asyncio
import json
import re
import ssl
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from host.http.statuses import STATUS_OF
from host.model.errors import ErrorCode
from tests.emulator.front.attacks import GET, Attack
from tests.emulator.front.fronts import cut

_HEAD = re.compile(rb"HTTP/1\.1 (\d{3}) [^\r\n]*\r\n((?:[A-Za-z-]+: ?[\x20-\x7e]*\r\n)+)\r\n")
_LENGTH = re.compile(rb"^content-length: ?(\d+)\r$", re.IGNORECASE | re.MULTILINE)
_FIRST = asyncio.FIRST_COMPLETED
_CHUNK = b"x" * 262_144
BELOW_ROUTES = frozenset({408, 431, 501})


@dataclass
class Storm:
    """`faults` says in words what was not as it should be."""

    port: int
    ca: Path
    concurrency: int = 8
    answered: Counter[int] = field(default_factory=Counter)
    closed: int = 0
    faults: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._tls = ssl.create_default_context(cafile=self.ca)
        self._slots = asyncio.Semaphore(self.concurrency)

    async def run(self, attacks: Iterable[Attack]) -> None:
        await asyncio.gather(*(self._one(number, attack) for number, attack in enumerate(attacks)))

    async def is_well(self) -> bool:
        """Whether a new connection is served at once."""
        reader, writer = await self._connect(True)
        writer.write(GET)
        async with asyncio.timeout(5):
            line = await reader.readline()
        cut(writer)
        return line.startswith(b"HTTP/1.1 200")

    async def _one(self, number: int, attack: Attack) -> None:
        async with self._slots:
            try:
                heard = await self._carry_out(attack)
            except OSError as error:
                self.faults.append(f"{attack.name}: {type(error).__name__} {error}")
                return
            self._judge(attack, heard)
            if number % 10 == 0 and not await self.is_well():
                self.faults.append(f"{attack.name}: the next connection is not served")

    async def _connect(self, is_tls: bool) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        tls, name = (self._tls, "localhost") if is_tls else (None, None)
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=tls, server_hostname=name)

    async def _carry_out(self, attack: Attack) -> "Heard":
        reader, writer = await self._connect(attack.is_tls)
        heard = Heard()
        listening = asyncio.create_task(heard.listen(reader))
        try:
            await _send(writer, attack)
            if attack.expected:
                await asyncio.wait({listening, asyncio.ensure_future(heard.answered.wait())}, return_when=_FIRST)
            else:
                await asyncio.wait({listening}, timeout=attack.patience_s)
        finally:
            listening.cancel()
            cut(writer)
        return heard

    def _judge(self, attack: Attack, heard: "Heard") -> None:
        if attack.is_rude or not attack.is_tls:
            return
        if not heard.answers:
            self.closed += 1
            if attack.expected:
                self.faults.append(f"{attack.name}: no answer to {attack.sent[:200]!r}")
        if heard.rest and (heard.is_ended or _HEAD.match(heard.rest) is None):
            self.faults.append(f"{attack.name}: no whole answer is {heard.rest!r}")
        for status, body in heard.answers:
            self.answered[status] += 1
            if attack.expected and status not in attack.expected:
                self.faults.append(f"{attack.name}: {status} to {attack.sent[:200]!r}")
            if status >= 500 and status != 501:
                self.faults.append(f"{attack.name}: {status} to {attack.sent!r}")
            if status >= 400 and not _is_problem(status, body):
                self.faults.append(f"{attack.name}: {status} with {body!r}")


@dataclass
class Heard:
    """What has come on one connection; `rest` is no whole answer."""

    answers: list[tuple[int, bytes]] = field(default_factory=list)
    rest: bytes = b""
    is_ended: bool = False
    answered: asyncio.Event = field(default_factory=asyncio.Event)

    async def listen(self, reader: asyncio.StreamReader) -> None:
        """Take answers apart until the host closes or the listener is cancelled."""
        try:
            while piece := await reader.read(65536):
                self.rest += piece
                while self._take_one():
                    self.answered.set()
        except OSError:
            pass
        self.is_ended = True

    def _take_one(self) -> bool:
        head = _HEAD.match(self.rest)
        length = None if head is None else _LENGTH.search(head[2])
        if head is None or length is None or len(self.rest) < head.end() + int(length[1]):
            return False
        end = head.end() + int(length[1])
        self.answers.append((int(head[1]), self.rest[head.end() : end]))
        self.rest = self.rest[end:]
        return True


def _is_problem(status: int, body: bytes) -> bool:
    document = json.loads(body)
    code = ErrorCode(document["code"])
    is_right = STATUS_OF[code] == status or (status in BELOW_ROUTES and code is ErrorCode.INVALID_REQUEST)
    return is_right and document["status"] == status and document["type"] == "about:blank" and bool(document["title"])


async def _send(writer: asyncio.StreamWriter, attack: Attack) -> None:
    """A host that has heard enough may close; that is no fault."""
    try:
        writer.write(attack.sent)
        await writer.drain()
        left = attack.filler_bytes
        while left > 0:
            writer.write(_CHUNK[:left])
            left -= len(_CHUNK)
            await writer.drain()
    except OSError:
        return
