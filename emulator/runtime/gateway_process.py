"""One gateway process: its table, the calls of its bindings, the stop of a Version. Knows no successor."""

import asyncio
import itertools
import json
import logging
import socket
from collections import Counter
from collections.abc import Coroutine, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from emulator.contexts import BindingCalls
from emulator.events import OnPicked
from emulator.runtime.config import Config
from emulator.runtime.context_texts import binding_call
from emulator.runtime.kernels import CONTROL_SOCKET
from emulator.runtime.platform import limit_data
from emulator.runtime.process import Launcher, Workerd
from emulator.runtime.routes import FoundRoute

_LOG = logging.getLogger(__name__)
DATA_LIMIT_BYTES = 2 << 30
"""What buffers and heap may come to: a larger allocation fails in the code that makes it, or ends the process."""
_FAILED = '["error","backend_unavailable","The host could not answer."]'


class GatewayEnded(Exception):
    """The process ended before it answered."""


class GatewayProcess:
    """A workerd that answers requests. `loading` are the Versions whose code it is about to evaluate; `is_given_up`
    says that the host itself wants it to end."""

    def __init__(self, calls: BindingCalls) -> None:
        self.pongs = 0
        self.loading: set[str] = set()
        self.is_given_up = False
        self._busy: Counter[str] = Counter()
        self._seen: dict[str, None] = {}
        self._calls = calls
        self._numbers = itertools.count(1)
        self._waiting: dict[str, asyncio.Future[str]] = {}
        self._picked: dict[str, OnPicked] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._workerd: Workerd | None = None

    @classmethod
    async def spawn(
        cls, launcher: Launcher, config: Config, sockets: Mapping[str, socket.socket], calls: BindingCalls
    ) -> "GatewayProcess":
        """Start a process on its listening sockets; requests wait until it has a table. Raises `WorkerdFailed`."""
        process = cls(calls)
        process._workerd = await launcher.start(
            config, CONTROL_SOCKET, process._receive, process._channel_closed, sockets
        )
        process._workerd.child.exited.add_done_callback(process._ended)
        limit_data(process._workerd.child.pid, DATA_LIMIT_BYTES)
        return process

    @property
    def workerd(self) -> Workerd:
        assert self._workerd is not None
        return self._workerd

    @property
    def exited(self) -> asyncio.Future[int]:
        return self.workerd.child.exited

    @property
    def pid(self) -> int:
        return self.workerd.child.pid

    @property
    def active(self) -> AbstractSet[str]:
        """Versions whose requests may be under way: told before their code runs, taken back some time after."""
        return {uid for uid, count in self._busy.items() if count > 0}

    @property
    def suspects(self) -> tuple[str, ...]:
        """Versions whose code may be running now; when no request is under way, all whose code has run here."""
        return tuple(self.active or self._seen)

    def settle(self) -> None:
        """Have the active Versions looked at: those at rest are active no more."""
        self.workerd.channel.send("!settle 0")

    async def set_table(self, text: str) -> None:
        """Every request that is accepted once this returned goes by the new table (WD-04). Raises `GatewayEnded`."""
        await self._ask("!table", text)

    async def set_clock(self, text: str) -> None:
        """No isolate shows an earlier state of the clock once this returned. Raises `GatewayEnded`."""
        await self._ask("!clock", text)

    async def retire(self, version_uid: str) -> None:
        """Stop whatever runs for a Version that is in no table any more (WD-07). Raises `GatewayEnded`."""
        await self._ask("!retire", version_uid)

    async def is_executing(self, version_uid: str) -> bool:
        """Whether a handler of the Version or a promise it gave to `waitUntil` is unsettled, or a body streams (WV-09).

        Raises `GatewayEnded`.
        """
        return await self._ask("!running", version_uid) != "0"

    async def look_up(self, hostname: str) -> FoundRoute | None:
        """The Worker that the name leads to by the table in force. Raises `GatewayEnded`."""
        worker_uid, _, state = (await self._ask("!route", hostname)).partition(" ")
        return FoundRoute(worker_uid, state == "served") if worker_uid else None

    async def call_handler(self, worker_uid: str, handler: str, event_text: str, on_picked: OnPicked) -> str:
        """The kernel's word on how a handler ended; `on_picked` returns before code of the Version runs.

        Raises `GatewayEnded`, and what `on_picked` raises.
        """
        return await self._ask("!handle", f"{worker_uid} {handler} {event_text}", on_picked)

    async def run_handler(self, version_uid: str, handler: str, event_text: str) -> str:
        """The same for a Version that was picked before. Raises `GatewayEnded`."""
        return await self._ask("!run", f"{version_uid} {handler} {event_text}")

    def ping(self) -> None:
        """Ask for a pong: `pongs` grows once the event loop turns."""
        self.workerd.channel.send("!ping 0")

    def refuse_connections(self) -> None:
        """Let workerd give up its public socket; what it serves goes on."""
        self.workerd.child.terminate()

    def kill(self) -> None:
        self.workerd.child.kill()

    async def end(self) -> int:
        """Kill the process and wait for its end; its exit status."""
        self.is_given_up = True
        return await self.workerd.end()

    async def _ask(self, verb: str, text: str, on_picked: OnPicked | None = None) -> str:
        if self.exited.done():
            raise GatewayEnded
        number = str(next(self._numbers))
        if on_picked is not None:
            self._picked[number] = on_picked
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        self.workerd.channel.send(f"{verb} {number} {text}")
        try:
            return await answer
        finally:
            self._waiting.pop(number, None)
            self._picked.pop(number, None)

    def _receive(self, text: str) -> None:
        verb, _, rest = text.partition(" ")
        match verb:
            case "!pong":
                self.pongs += 1
            case "!loading" | "!loaded":
                (self.loading.add if verb == "!loading" else self.loading.discard)(rest)
            case "!picked":
                number, _, version_uid = rest.partition(" ")
                self._start(self._allow(number, version_uid))
            case "!busy" | "!idle":
                self._note_activity(rest, verb == "!busy")
            case "!done":
                number, _, told = rest.partition(" ")
                answer = self._waiting.get(number)
                if answer is not None and not answer.done():
                    answer.set_result(told)
            case "!call":
                number, _, call = rest.partition(" ")
                self._start(self._answer(number, json.loads(call)))
            case _:
                _LOG.error("the gateway sent an unknown verb")
                self.kill()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _allow(self, number: str, version_uid: str) -> None:
        """Let the handler run once whoever called it knows its Version; a caller that cannot gets its own error."""
        on_picked, word = self._picked.get(number), "no"
        try:
            if on_picked is not None:
                await on_picked(version_uid)
                word = "yes"
        except Exception as error:
            answer = self._waiting.get(number)
            if answer is not None and not answer.done():
                answer.set_exception(error)
        self.workerd.channel.send(f"!go {number} {word}")

    def _note_activity(self, version_uid: str, has_begun: bool) -> None:
        """Counted, as the two words may overtake each other."""
        self._busy[version_uid] += 1 if has_begun else -1
        self._seen[version_uid] = None

    async def _answer(self, number: str, call: dict[str, dict[str, str]]) -> None:
        try:
            reply = await self._calls.answer(binding_call(call["props"], str(call["body"])))
        except Exception:
            _LOG.exception("a call of binding %s failed", call["props"]["binding"])
            reply = _FAILED
        self.workerd.channel.send(f"!reply {number} {reply}")

    def _channel_closed(self) -> None:
        if self._workerd is not None:
            self.kill()

    def _ended(self, _exited: asyncio.Future[int]) -> None:
        self.workerd.channel.abort()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(GatewayEnded())
