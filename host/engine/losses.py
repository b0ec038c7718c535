"""Shows in `observed` that a Version has lost its secrets, and that it has them again (WV-12, WD-08, WE-06).

They are lost with the host key, or with the sealed value; a key that was restored brings them back. Looked for at each
start, and whenever the runtime was found without them. Guesses nothing: only the runtime says whether a value opens.
"""

import asyncio
from collections.abc import Iterable, Mapping

from host.engine.settlement import observe_again
from host.engine.view import SpaceView
from host.forms.registry import FormRegistry
from host.model.json import JsonObject
from host.model.records import Resource
from host.model.time import Clock
from host.ports import Backend, BackendError
from host.sqlite import Database, Transaction
from host.store.losses import lost_secrets, observations_due, put_off_observation, replace_lost_secrets
from host.store.resources import find_of_anybody

_AT_ONCE = 16
"""Observations under way side by side: one of an endpoint takes its time when nobody answers."""


class Losses:
    """What the runtime says of secrets, brought into the rows."""

    def __init__(self, database: Database, clock: Clock, backend: Backend, forms: FormRegistry) -> None:
        self._database = database
        self._clock = clock
        self._backend = backend
        self._forms = forms

    async def look(self) -> int:
        """Note every change since the last look, with fresh observations of all that it concerns, in one commit.

        Returns how many Versions are without their secrets now.
        """
        lost = await self._backend.versions.lost_secrets()
        concerned = await self._database.read(lambda tx: _concerned(tx, lost, self._forms))
        if concerned:
            observations, now = await self._observe(concerned), self._clock.now_ms()
            await self._database.write(lambda tx: _note(tx, lost, observations, self._forms, now))
        return len(lost)

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


def _concerned(tx: Transaction, lost: frozenset[str], forms: FormRegistry) -> list[Resource]:
    """The Versions that lost their secrets or have them again, and every Resource whose observation speaks of these."""
    found: dict[str, Resource] = {}
    for uid in sorted(lost ^ lost_secrets(tx)):
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
    lost: frozenset[str],
    observations: Mapping[str, JsonObject | None],
    forms: FormRegistry,
    at_ms: int,
) -> None:
    replace_lost_secrets(tx, lost)
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
