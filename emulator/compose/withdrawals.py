"""Ends what still runs on Versions fifteen minutes after they left the weights (WD-04, WD-10).

The deadlines are rows, so that they survive a restart. Knows neither how contexts nor how requests are stopped.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from emulator.catalog import Catalog, Withdrawal
from emulator.contexts import StopEvidence
from host.model.json import JsonObject
from host.model.room import lacks_room
from host.model.time import Clock, RealTime, timestamp
from host.ports import BackendUnavailable
from host.sqlite import DatabaseError

_LOG = logging.getLogger("takohost.withdrawals")
_PATIENCE_S = 0.2
_PATIENCE_WITHOUT_ROOM_S = 5.0


class Contexts(Protocol):
    """The part of the workflow engine that withdrawals concern."""

    async def stop_version(self, version_uid: str) -> None:
        """Stop the contexts of the Version with evidence; their instances go on under another."""


class Requests(Protocol):
    """The part of routing that withdrawals concern."""

    async def withdraw(self, version_uid: str) -> StopEvidence | None:
        """Stop the requests of the Version; none when it is in the weights again. Raises `BackendUnavailable`."""


class Withdrawals:
    """Sleeps on the clock until the next deadline."""

    def __init__(
        self, catalog: Catalog, contexts: Contexts, requests: Requests, clock: Clock, real_time: RealTime
    ) -> None:
        self._catalog = catalog
        self._contexts = contexts
        self._requests = requests
        self._clock = clock
        self._real_time = real_time
        self._changed = asyncio.Event()
        self._settled = asyncio.Condition()
        self._loop: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._loop = asyncio.create_task(self._run(), name="withdrawals")

    async def stop(self) -> None:
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.wait([self._loop])
            self._loop = None

    def deployments_changed(self) -> None:
        """Look again which Versions have left."""
        self._changed.set()

    async def list_withdrawals(self) -> list[JsonObject]:
        """For people: what left the weights, until when it may go on, how it was stopped."""
        return [_shown(each) for each in await self._catalog.withdrawals()]

    async def settled(self) -> bool:
        """Return once no withdrawal is due at this instant; true when that had to be waited for."""
        has_waited = False
        async with self._settled:
            while await self._due():
                has_waited = True
                await self._settled.wait()
        return has_waited

    async def _pending(self) -> Sequence[Withdrawal]:
        return [each for each in await self._catalog.withdrawals() if each.ended_at is None]

    async def _due(self) -> Sequence[Withdrawal]:
        now_ms = self._clock.now_ms()
        return [each for each in await self._pending() if each.due_at_ms <= now_ms]

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            try:
                await asyncio.gather(*(self._end(each) for each in await self._due()))
                next_ms = min((each.due_at_ms for each in await self._pending()), default=None)
            except (BackendUnavailable, DatabaseError) as error:
                _LOG.warning("a withdrawn Version is stopped later: %s", error)
                await self._real_time.sleep_s(_PATIENCE_WITHOUT_ROOM_S if lacks_room(error) else _PATIENCE_S)
                continue
            async with self._settled:
                self._settled.notify_all()
            await self._wait(next_ms)

    async def _wait(self, next_ms: int | None) -> None:
        waits: set[asyncio.Task[object]] = {asyncio.create_task(self._changed.wait())}
        if next_ms is not None:
            waits.add(asyncio.create_task(self._clock.sleep_until(next_ms)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()
            await asyncio.wait(waits)

    async def _end(self, withdrawal: Withdrawal) -> None:
        """Contexts first: each keeps its own evidence with its instance."""
        uid = withdrawal.version_uid
        await self._contexts.stop_version(uid)
        evidence = await self._requests.withdraw(uid)
        if evidence is not None:
            _LOG.info("Version %s left the weights 15 minutes ago: its requests are ended (%s)", uid, evidence.kind)
            at = timestamp(self._clock.now_ms())
            await self._catalog.end_withdrawal(uid, at, _evidence(evidence))


def _evidence(evidence: StopEvidence) -> JsonObject:
    return {
        "kind": evidence.kind,
        "pid": evidence.pid,
        "processStarted": evidence.process_started,
        "exitStatus": evidence.exit_status,
        "at": evidence.at,
    }


def _shown(withdrawal: Withdrawal) -> JsonObject:
    return {
        "versionUid": withdrawal.version_uid,
        "workerUid": withdrawal.worker_uid,
        "leftAt": timestamp(withdrawal.left_at_ms),
        "dueAt": timestamp(withdrawal.due_at_ms),
        "endedAt": withdrawal.ended_at,
        "stop": withdrawal.evidence,
    }
