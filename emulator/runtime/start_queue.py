"""Starts of contexts that wait for a process, in their order. Knows no process."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from emulator.contexts import ContextStart, OnLost, RunnersBusy
from emulator.runtime.runner import Context, Runner


@dataclass(eq=False, slots=True)
class Waiting:
    """One start. While it `is_patient` it hopes for a process to itself; one that `must_be_alone` never shares."""

    start: ContextStart
    on_frame: Callable[[str], None]
    on_lost: OnLost
    must_be_alone: bool
    is_patient: bool = True
    placed: asyncio.Future[Context] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Take(Protocol):
    def __call__(self, *, is_content_to_share: bool) -> Runner | None:
        """A runner for the next start, or None."""


class StartQueue:
    """First come, first served, within what each may be served with."""

    def __init__(self) -> None:
        self._waiting: deque[Waiting] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, waiting: Waiting) -> Waiting:
        self._waiting.append(waiting)
        return waiting

    def place(self, room: int, entitled: int, take: Take) -> None:
        """Start at most `room` contexts where `take` says. The first `entitled` of those left wait for a process to
        themselves, which is coming."""
        left: deque[Waiting] = deque()
        is_dry = False  # nothing is left even for those that would share
        while self._waiting and room > 0 and not is_dry:
            waiting = self._waiting.popleft()
            if waiting.placed.done():
                continue
            shares = not (waiting.must_be_alone or waiting.is_patient or entitled > 0)
            runner = take(is_content_to_share=shares)
            is_dry = runner is None and shares
            if runner is None:
                left.append(waiting)
            else:
                waiting.placed.set_result(runner.start(waiting.start, waiting.on_frame, waiting.on_lost))
                room -= 1
            if runner is None or not runner.is_shared:
                entitled -= 1
        self._waiting.extendleft(reversed(left))

    def demand(self, entitled: int, room: int) -> tuple[int, int]:
        """How many of the first `room` starts want a process to themselves, `entitled` of the others included, and how
        many have no hope of one any more and would share."""
        alone, sharing = 0, 0
        for waiting in self._waiting:
            if waiting.placed.done():
                continue
            if alone + sharing >= room:
                break
            if waiting.must_be_alone or entitled > 0:
                entitled -= 1
                alone += 1
            elif not waiting.is_patient:
                sharing += 1
        return alone, sharing

    def refuse(self, why: str) -> None:
        """None of those that wait now is started."""
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.placed.done():
                waiting.placed.set_exception(RunnersBusy(why))
