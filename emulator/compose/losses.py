"""Notices while the host runs that held bytes are lost, or there again, and tells of it (WD-08, WB-11).

Decides nothing about Versions: the Host API's engine does, by what the custody says.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from pathlib import Path

from emulator.catalog import Catalog
from emulator.compose.triggers import FailureLog
from emulator.contexts import BindingCall, BindingCalls
from host.engine.losses import Lost
from host.model.time import RealTime
from host.ports import ArtifactPort, ArtifactRefused, BackendError
from host.sqlite import DatabaseError

_LOG = logging.getLogger(__name__)
LOOK_AGAIN_S = 5.0
"""Real time between two looks while something is lost."""
TOLD_S = 60.0
"""Real time for which the same loss of the same Version is not told again."""
_MOST_TOLD = 1000
_MOST_NAMED = 5

Look = Callable[[], Awaitable[Lost]]


async def warn_of_losses(lost: Lost, host_key: Path, catalog: Catalog, digests: Collection[str]) -> None:
    """Tell the operator at a start: a lost key is made anew silently, and nobody may ask for the Versions for long.

    `digests` are of the bytes that were found lost.
    """
    if lost.secrets:
        _LOG.warning(
            "%s lost the secrets: %s does not open them; restore that file and start again, "
            "or create new Versions with the values and select these",
            _counted(len(lost.secrets)),
            host_key,
        )
    if lost.files:
        _LOG.warning(
            "%s lost held bytes (%s): files below artifacts/ are gone or damaged; PUT the same bytes again: sha256 %s",
            _counted(len(lost.without_files)),
            _first(await _described(catalog, sorted(lost.without_files)[:_MOST_NAMED]), len(lost.without_files)),
            _first(sorted(digests)[:_MOST_NAMED], len(digests)),
        )


async def _described(catalog: Catalog, version_uids: Iterable[str]) -> list[str]:
    names = await catalog.names()
    versions = [await catalog.version(uid) for uid in version_uids]
    return [f"Worker {names.get(each.worker_uid)!r}, Version {each.version_uid}" for each in versions if each]


def _first(texts: Sequence[str], number: int) -> str:
    """These, of so many: a host may have lost all it had."""
    more = number - len(texts)
    return "; ".join(texts) + (f" and {more} more" if more > 0 else "")


class LossWatch:
    """Looks when told to, and again every `LOOK_AGAIN_S` while bytes are lost."""

    def __init__(self, real_time: RealTime) -> None:
        self._real_time = real_time
        self._told = asyncio.Event()
        self._run: asyncio.Task[None] | None = None

    def start(self, look: Look, has_lost: bool) -> None:
        self._run = asyncio.create_task(self._watch(look, has_lost), name="losses")

    async def stop(self) -> None:
        if self._run is not None:
            self._run.cancel()
            await asyncio.gather(self._run, return_exceptions=True)

    def wake(self) -> None:
        """Look now: bytes were met lost, or came back."""
        self._told.set()

    async def _watch(self, look: Look, has_lost: bool) -> None:
        while True:
            await self._wait(has_lost)
            self._told.clear()
            try:
                has_lost = bool((await look()).files)
            except (BackendError, DatabaseError) as error:
                _LOG.warning("what is lost is looked for later: %s", error)
                has_lost = True

    async def _wait(self, has_lost: bool) -> None:
        told = asyncio.create_task(self._told.wait())
        waits: set[asyncio.Task[object]] = {told}
        if has_lost:
            waits.add(asyncio.create_task(self._real_time.sleep_s(LOOK_AGAIN_S)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()
            await asyncio.gather(*waits, return_exceptions=True)


class LostFiles(BindingCalls):
    """Answers kernels that met held bytes which are lost: told once a minute at most for a Version and a digest."""

    def __init__(
        self, artifacts: ArtifactPort, watch: LossWatch, catalog: Catalog, log: FailureLog, now_s: Callable[[], float]
    ) -> None:
        self._artifacts = artifacts
        self._watch = watch
        self._catalog = catalog
        self._log = log
        self._now_s = now_s
        self._told: dict[tuple[str, str], float] = {}

    async def answer(self, call: BindingCall) -> str:
        try:
            await self._artifacts.read(call.target_uid)
        except ArtifactRefused as error:
            self._watch.wake()
            if self._is_news(call.version_uid, call.target_uid):
                await self._tell(call.version_uid, str(error))
            return json.dumps(["error", "backend_unavailable", str(error)])
        return '["ok"]'

    def _is_news(self, version_uid: str, digest: str) -> bool:
        now_s, what = self._now_s(), (version_uid, digest)
        if what in self._told and now_s - self._told[what] < TOLD_S:
            return False
        if len(self._told) >= _MOST_TOLD:
            self._told.clear()
        self._told[what] = now_s
        return True

    async def _tell(self, version_uid: str, why: str) -> None:
        """In the host's own log and among the lines of the Worker."""
        version = await self._catalog.version(version_uid)
        if version is None:
            return
        name = (await self._catalog.names()).get(version.worker_uid)
        _LOG.error("Worker %r, Version %s: an asset cannot be served: %s", name, version_uid, why)
        self._log.fail(version.worker_uid, version_uid, f"takohost: an asset cannot be served: {why}")


def _counted(number: int) -> str:
    return "1 Version has" if number == 1 else f"{number} Versions have"
