"""Versions set apart: each in a process of its own at a socket the gateway passes requests on to, and why.

Decides who is set apart and until when, and says so in the logs. Knows no table and no weights.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from socket import socket

from emulator.runtime.app_log import AppLine
from emulator.runtime.gateway_post import GatewayPost, Report
from emulator.runtime.gateway_process import GatewayProcess
from emulator.runtime.gateway_watchdog import Ending
from emulator.runtime.offenders import Offenders
from host.model.time import Clock, RealTime

_LOG = logging.getLogger(__name__)
_REST_POLL_S = 0.5

MakePost = Callable[[socket, Report], GatewayPost]


@dataclass(frozen=True, slots=True)
class Suspect:
    """A Version whose code may have run when a process ended; `worker_name` is for people."""

    version_uid: str
    worker_uid: str
    worker_name: str


@dataclass(slots=True)
class _Ward:
    suspect: Suspect
    post: GatewayPost
    is_leaving: bool = False


class Wards:
    """At most one ward for each of `doors`, which are listening sockets; when all are taken, further suspects stay
    where they are. `on_change` is called whenever `numbers` has changed."""

    def __init__(
        self,
        doors: Sequence[socket],
        make_post: MakePost,
        clock: Clock,
        real_time: RealTime,
        tell: Callable[[AppLine], None],
        on_change: Callable[[], Awaitable[object]],
    ) -> None:
        self._doors = doors
        self._make_post = make_post
        self._clock = clock
        self._real_time = real_time
        self._tell = tell
        self._on_change = on_change
        self._offenders = Offenders()
        self._wards: dict[int, _Ward] = {}
        self._tasks: set[asyncio.Future[object]] = set()

    @property
    def numbers(self) -> Mapping[str, int]:
        """Where the Versions set apart are served, by uid."""
        return {ward.suspect.version_uid: n for n, ward in self._wards.items() if not ward.is_leaving}

    def post_of(self, version_uid: str) -> GatewayPost | None:
        """Where the Version is served now; none when it is not set apart (any more)."""
        number = self.numbers.get(version_uid)
        return None if number is None else self._wards[number].post

    @property
    def live(self) -> frozenset[GatewayProcess]:
        return frozenset(process for ward in self._wards.values() for process in ward.post.live)

    @property
    def census(self) -> Mapping[GatewayProcess, str]:
        """The Version that each live process serves."""
        return {process: ward.suspect.version_uid for ward in self._wards.values() for process in ward.post.live}

    def report(self, ending: Ending, suspects: Sequence[Suspect], is_alone: bool = False) -> None:
        """A process ended in which the code of these may have run; `is_alone` says that no other could have."""
        if not ending.is_offence or not suspects:
            _LOG.warning("a process of the gateway ended: %s; starting its successor", ending.why)
            return
        now_s = self._real_time.monotonic_s()
        for suspect in suspects:
            is_convicted = self._offenders.note(suspect.version_uid, now_s, is_alone)
            is_apart = self._set_apart(suspect)
            self._say(suspect, _sentence(ending, len(suspects), is_convicted, is_apart))
        self._start(self._on_change())
        self._start(self._release())

    def forget(self, version_uids: Iterable[str]) -> None:
        """These were deployed anew, or get no new requests: they are not set apart any more."""
        self._offenders.forget(version_uids)
        self._let_go()

    async def rest(self) -> None:
        """Set nobody apart or free any more; what is served goes on."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*(ward.post.rest() for ward in self._wards.values()))

    async def close(self) -> None:
        await self.rest()
        await asyncio.gather(*(ward.post.close() for ward in self._wards.values()))
        for door in self._doors:
            door.close()

    def _set_apart(self, suspect: Suspect) -> bool:
        if suspect.version_uid in self.numbers:
            return True
        free = [number for number in range(len(self._doors)) if number not in self._wards]
        if not free:
            return False
        post = self._make_post(
            self._doors[free[0]], lambda process, ending: self.report(ending, [suspect], is_alone=True)
        )
        self._wards[free[0]] = _Ward(suspect, post)
        post.open_soon()
        return True

    async def _release(self) -> None:
        """Wait for the next one whose time is over, and let it go; each report starts one such wait."""
        now_s = self._real_time.monotonic_s()
        at_s = self._offenders.next_release_s(now_s)
        if at_s is not None:
            await self._real_time.sleep_s(at_s - now_s)
            self._let_go()

    def _let_go(self) -> None:
        apart = self._offenders.apart(self._real_time.monotonic_s())
        for number in [number for uid, number in self.numbers.items() if uid not in apart]:
            self._wards[number].is_leaving = True
            self._start(self._empty(number))

    async def _empty(self, number: int) -> None:
        """New requests go elsewhere first; what the ward has taken ends there, watched as ever."""
        post = self._wards[number].post
        await self._on_change()
        is_at_rest = False  # what was passed on by the former table may still be on its way, or wait for a successor
        while not is_at_rest:
            for process in post.live:
                process.settle()
            await self._real_time.sleep_s(_REST_POLL_S)
            is_at_rest = post.process is not None and not any(process.active for process in post.live)
        await post.close()
        del self._wards[number]

    def _say(self, suspect: Suspect, sentence: str) -> None:
        _LOG.warning(
            "Worker %s (%s), Version %s: %s", suspect.worker_name, suspect.worker_uid, suspect.version_uid, sentence
        )
        message = f"takohost: Worker {suspect.worker_name}, Version {suspect.version_uid}: {sentence}"
        now_ms = self._clock.now_ms()
        who = (suspect.worker_name, suspect.worker_uid, suspect.version_uid)
        self._tell(AppLine(now_ms, *who, None, None, "error", message))

    def _start(self, work: Awaitable[object]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _sentence(ending: Ending, suspects: int, is_convicted: bool, is_apart: bool) -> str:
    others = "no other Version had" if suspects == 1 else f"{suspects} Versions had"
    blame = f"{ending.why}; {others} requests under way there"
    if not is_apart:
        return f"{blame}; no further process is free to serve it alone"
    until = "until it is deployed anew" if is_convicted else "for a minute"
    return f"{blame}; it is now served by a process of its own {until}"
