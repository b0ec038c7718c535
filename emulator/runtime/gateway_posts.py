"""The posts of a gateway, each with listening sockets of its own at the public addresses: one for good, further ones
while all are busy. Knows no table and no Version.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from socket import SHUT_RDWR, socket

from emulator.runtime.crew_size import CrewSize
from emulator.runtime.gateway_post import Dismiss, GatewayPost, Signals
from emulator.runtime.gateway_process import GatewayProcess
from emulator.runtime.process import WorkerdFailed
from emulator.runtime.shared_port import has_queued, share_out, sibling_of
from host.model.time import RealTime

_LOG = logging.getLogger(__name__)
_QUEUE_POLL_S = 0.05
_LEAVING_S = 0.5
"""So long nothing new comes to a post before its process is to end: workerd then closes whoever has asked nothing."""

MakePost = Callable[[Mapping[str, socket], Signals], GatewayPost]


@dataclass(slots=True, eq=False)
class _Place:
    """A post with the sockets that are its own; `is_open` says that new connections may be sent there."""

    post: GatewayPost
    own: Mapping[str, socket] = field(default_factory=dict)
    is_open: bool = False


class GatewayPosts:
    """Posts on `public`, whose addresses they share, and on `others`, which are one and the same for all of them.

    New connections go to posts whose event loop turns. Use on one event loop.
    """

    def __init__(
        self,
        make_post: MakePost,
        public: Mapping[str, socket],
        others: Mapping[str, socket],
        dismiss: Dismiss,
        most: int,
        real_time: RealTime,
    ) -> None:
        self._make_post = make_post
        self._public = public
        self._others = others
        self._dismiss = dismiss
        self._real_time = real_time
        self._size = CrewSize(most)
        self._changing: asyncio.Task[None] | None = None
        self._bell = asyncio.Event()
        self._is_resting = False
        self._shared_among = [0]
        self._places: list[_Place] = []
        self._add({}).is_open = True

    @property
    def process(self) -> GatewayProcess | None:
        """The one to speak to: of the eldest post whose process turns; none while there is none."""
        able = [place.post for place in self._places if place.is_open and place.post.is_able]
        return (able or [self._places[0].post])[0].process

    @property
    def live(self) -> frozenset[GatewayProcess]:
        """Every process that may answer requests."""
        return frozenset(process for place in self._places for process in place.post.live)

    async def open(self) -> None:
        """Start the first process. Raises `WorkerdFailed`."""
        await self._places[0].post.open()

    async def serving(self, after: GatewayProcess | None = None) -> GatewayProcess:
        """The process to speak to, once there is one other than `after`."""
        while self.process is None or self.process is after:
            await self._bell.wait()
        return self.process

    async def rest(self) -> None:
        """Start and dismiss no more processes; those there are go on, unwatched."""
        self._is_resting = True
        if self._changing is not None:
            self._changing.cancel()
            await asyncio.wait([self._changing])
        await asyncio.gather(*(place.post.rest() for place in self._places))

    def shut(self) -> None:
        """Let nobody connect any more, once no process accepts."""
        for listener in self._listeners(self._places):
            with suppress(OSError):  # not everywhere: there they wait, and are cut at the end
                listener.shutdown(SHUT_RDWR)

    async def close(self) -> None:
        """End every process; what they still served is cut."""
        await self.rest()
        await asyncio.gather(*(place.post.close() for place in self._places))
        for place in self._places:
            _close(place)

    def _add(self, own: Mapping[str, socket]) -> _Place:
        signals = Signals(self._dismiss, self._note_change, lambda share: self._note_load(place, share))
        place = _Place(self._make_post({**self._public, **self._others, **own}, signals), own)
        self._places.append(place)
        return place

    def _listeners(self, places: Iterable[_Place]) -> list[socket]:
        return [listener for place in places for listener in (place.own or self._public).values()]

    def _note_change(self) -> None:
        self._bell.set()
        self._bell = asyncio.Event()
        self._share_out()

    def _share_out(self) -> None:
        """Send new connections where they are answered; when nobody's event loop turns, they wait at the open posts."""
        is_open = [number for number, place in enumerate(self._places) if place.is_open]
        among = [number for number in is_open if self._places[number].post.is_able] or is_open
        if among != self._shared_among:
            self._shared_among = among
            for listener in self._public.values():
                share_out(listener, among)

    def _note_load(self, place: _Place, share: float) -> None:
        places = [each for each in self._places if each.is_open]
        if place in places:
            self._size.note(place, share, places, self._real_time.monotonic_s())
        self._tend()

    def _tend(self) -> None:
        """One change at a time."""
        if self._is_resting or self._changing is not None or self._size.wanted == len(self._places):
            return
        change = self._grow if self._size.wanted > len(self._places) else self._shrink
        self._changing = asyncio.create_task(change())
        self._changing.add_done_callback(self._note_changed)

    def _note_changed(self, task: asyncio.Task[None]) -> None:
        self._changing = None
        if not task.cancelled():
            task.result()
            self._tend()

    async def _grow(self) -> None:
        """Another post; connections come there once its process answers."""
        try:
            place = self._share_addresses()
        except OSError as error:
            _LOG.warning("the gateway stays with one process, as its addresses cannot be shared: %s", error)
            self._size = CrewSize(1)
            return
        try:
            await place.post.open()
        except WorkerdFailed as error:
            _LOG.error("a further process of the gateway does not start: %s", error)
            self._size.do_without()
            self._give_up(place)
        else:
            place.is_open = True
        self._note_change()

    def _share_addresses(self) -> _Place:
        """A place with sockets to which nothing comes yet. Raises `OSError`."""
        place = self._add(_siblings(self._public))
        try:
            for listener in self._public.values():
                share_out(listener, self._shared_among)
        except OSError:
            self._give_up(place)
            raise
        return place

    def _give_up(self, place: _Place) -> None:
        self._places.remove(place)
        self._size.forget(place)
        _close(place)

    async def _shrink(self) -> None:
        """The youngest post leaves: nothing new comes to it, what has come is accepted, what is accepted ends there."""
        place = self._places[-1]
        place.is_open = False
        self._note_change()
        await self._real_time.sleep_s(_LEAVING_S)
        while any(map(has_queued, place.own.values())):
            await self._real_time.sleep_s(_QUEUE_POLL_S)
        await place.post.leave()
        self._give_up(place)
        self._note_change()


def _siblings(listeners: Mapping[str, socket]) -> Mapping[str, socket]:
    made: dict[str, socket] = {}
    try:
        for name, listener in listeners.items():
            made[name] = sibling_of(listener)
    except OSError:
        for listener in made.values():
            listener.close()
        raise
    return made


def _close(place: _Place) -> None:
    for listener in place.own.values():
        listener.close()
