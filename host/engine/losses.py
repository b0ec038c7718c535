"""Shows in `observed` that a Version has lost its secrets or held bytes, and that it has them again (WV-12, WD-08).

Secrets are lost with the host key, or with the sealed value; a key that was restored brings them back. Bytes are lost
with their files (WB-11). Looked for at each start, and whenever something was met without them. Guesses nothing: only
the runtime says whether a value opens, only the custody of bytes what is whole.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from host.engine.settlement import observe_again
from host.engine.view import SpaceView
from host.forms.registry import FormRegistry
from host.model.faults import FaultPoints, register
from host.model.json import JsonObject
from host.model.records import Resource
from host.model.time import Clock
from host.ports import Backend, BackendError
from host.sqlite import Database, Transaction
from host.store.losses import (
    lost_files,
    lost_secrets,
    observations_due,
    put_off_observation,
    replace_lost_files,
    replace_lost_secrets,
    users_of,
)
from host.store.resources import find_of_anybody

AFTER_WITHHOLD = register(
    "host.losses.after_withhold", "the runtime starts nothing new on what lost bytes, no record says so yet"
)
_AT_ONCE = 16
"""Observations under way side by side: one of an endpoint takes its time when nobody answers."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Uids of the Versions without their secrets, and of those with a bundle that is not whole, with its role."""

    secrets: frozenset[str] = frozenset()
    files: frozenset[tuple[str, str]] = frozenset()

    @property
    def without_files(self) -> frozenset[str]:
        return frozenset(uid for uid, _ in self.files)


class Losses:
    """What the backend says of secrets and bytes, brought into the rows."""

    def __init__(
        self, database: Database, clock: Clock, backend: Backend, forms: FormRegistry, faults: FaultPoints
    ) -> None:
        self._database = database
        self._clock = clock
        self._backend = backend
        self._forms = forms
        self._faults = faults
        self._looking = asyncio.Lock()
        self._has_looked = False
        self._last: Lost | None = None

    async def look(self) -> Lost:
        """Note every change since the last look, with fresh observations of all that it concerns, in one commit.

        What has lost bytes is withheld before that, and what has them again is given work. Returns what is lost now.
        """
        async with self._looking:
            secrets = await self._backend.versions.lost_secrets()
            holders = await self._backend.artifacts.lost_holders()
            lost, known = await self._database.read(lambda tx: (Lost(secrets, users_of(tx, holders)), _known(tx)))
            if lost.files != known.files or (lost.files and not self._has_looked):
                await self._backend.versions.withhold(lost.without_files)
                self._faults.reach(AFTER_WITHHOLD)
            self._has_looked = True
            concerned = await self._database.read(lambda tx: _concerned(tx, lost, known, self._forms))
            if concerned:
                observations, now = await self._observe(concerned), self._clock.now_ms()
                await self._database.write(lambda tx: _note(tx, lost, observations, self._forms, now))
            self._last = lost
            return lost

    async def look_again(self) -> None:
        """Look if something was lost when the host last did: an Operation may have brought it back."""
        if self._last != Lost():  # asked after each Operation: no read for it
            await self.look()

    async def catch_up(self) -> None:
        """Observe again what was put off and can be asked now: when a change has failed, and at a start."""
        due = await self._database.read(_due)
        if due:
            observations, now = await self._observe(due), self._clock.now_ms()
            await self._database.write(lambda tx: _store(tx, observations, self._forms, now))

    async def _observe(self, resources: Iterable[Resource]) -> dict[str, JsonObject | None]:
        """By uid; `None` when it cannot be asked now: the old observation stays for a while, with its old time."""
        slots = asyncio.Semaphore(_AT_ONCE)

        async def observe(resource: Resource) -> tuple[str, JsonObject | None]:
            form = self._forms.get(resource.form_url)
            try:
                async with slots:
                    return resource.uid, None if form is None else await form.observe(resource, self._backend)
            except BackendError:
                return resource.uid, None

        return dict(await asyncio.gather(*map(observe, resources)))


def _known(tx: Transaction) -> Lost:
    return Lost(lost_secrets(tx), lost_files(tx))


def _concerned(tx: Transaction, lost: Lost, known: Lost, forms: FormRegistry) -> list[Resource]:
    """The Versions that lost something or have it again, and every Resource whose observation speaks of these."""
    found: dict[str, Resource] = {}
    changed = (lost.secrets ^ known.secrets) | {uid for uid, _ in lost.files ^ known.files}
    for uid in sorted(changed):
        version = find_of_anybody(tx, uid)
        form = None if version is None else forms.get(version.form_url)
        if version is None or form is None:
            continue
        found[uid] = version
        for each in form.affected(SpaceView(tx, version.owner, version.space), version):
            found[each.uid] = each
    return list(found.values())


def _due(tx: Transaction) -> list[Resource]:
    """What was put off and has no change under way."""
    found = (find_of_anybody(tx, uid) for uid in observations_due(tx))
    return [each for each in found if each is not None and each.unfinished is None]


def _note(
    tx: Transaction,
    lost: Lost,
    observations: Mapping[str, JsonObject | None],
    forms: FormRegistry,
    at_ms: int,
) -> None:
    replace_lost_secrets(tx, lost.secrets)
    replace_lost_files(tx, lost.files)
    _store(tx, observations, forms, at_ms)


def _store(tx: Transaction, observations: Mapping[str, JsonObject | None], forms: FormRegistry, at_ms: int) -> None:
    for uid, observed in observations.items():
        resource = find_of_anybody(tx, uid)
        if resource is None:
            continue
        if observed is None:
            put_off_observation(tx, uid)
        else:
            observe_again(tx, SpaceView(tx, resource.owner, resource.space), uid, observed, forms, at_ms)
