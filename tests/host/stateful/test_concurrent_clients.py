"""A state machine of several clients at once over a real engine: keys, generations, busy, names and pages hold."""

import asyncio
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from host.engine.limits import Limits
from host.http.app import HttpSettings, create_app
from host.model.faults import FaultPoints
from host.model.records import Principal
from host.model.time import ControlledClock
from tests.host.api import ORIGIN, START_MS, open_engine
from tests.host.backend import FakeBackend
from tests.host.stateful.clients import SPACES, Clients, Intent, Memory

NAMES = ("a", "b", "c")
KEYS = tuple(f"stateful-key-{number:04d}" for number in range(12))
CALLS = ("workers.register", "workers.retire")
OWNER = Principal("local")

names, spaces, keys = st.sampled_from(NAMES), st.sampled_from(SPACES), st.sampled_from(KEYS)
creates = st.builds(lambda name, space: ("create", name, space, 0), names, spaces)
changes = st.builds(
    lambda kind, which, stale: (kind, str(which), "", stale),
    st.sampled_from(("update", "delete")),
    st.integers(0, 5),
    st.sampled_from((0, 0, 0, 1, -1)),
)
bursts = st.lists(st.tuples(keys, creates | changes), min_size=1, max_size=6)


class ConcurrentClients(RuleBasedStateMachine):
    """Each rule is a burst of requests that run at the same time; the memory judges every answer."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()
        self.folder = tempfile.TemporaryDirectory()
        self.backend = FakeBackend()
        self.clock = ControlledClock.frozen(START_MS)
        self.memory = Memory()
        self.held: set[str] = set()

    @initialize()
    def start(self) -> None:
        self.runner.run(self._start())

    async def _start(self) -> None:
        path = Path(self.folder.name) / "control.sqlite"
        limits = Limits(settle_wait_s=0.02, max_page_size=50)
        database, self.engine = await open_engine(path, self.backend, self.clock, FaultPoints.none(), limits)
        self.stack.push_async_callback(database.close)
        self.stack.push_async_callback(self.engine.close)
        await self.engine.start()
        app = create_app(self.engine, HttpSettings(origin=lambda: ORIGIN))
        http = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=ORIGIN)
        await self.stack.enter_async_context(http)
        self.clients = Clients(http, self.memory)

    @rule(burst=bursts)
    def mutate(self, burst: list[tuple[str, tuple[str, str, str, int]]]) -> None:
        """Different keys and the same keys, on the same and on different Resources, at once."""
        self.runner.run(self._burst([(key, self._intent(*what)) for key, what in burst]))

    @rule(key=keys, what=creates | changes, copies=st.integers(2, 5))
    def repeat_at_once(self, key: str, what: tuple[str, str, str, int], copies: int) -> None:
        """Concurrent copies of one request have one winner (HA-52)."""
        self.runner.run(self._burst([(key, self._intent(*what))] * copies))

    @rule(which=st.integers(0, 30))
    def replay(self, which: int) -> None:
        """An accepted request finds its Operation, whatever has happened since (HA-52)."""
        accepted = list(self.memory.intents.items())
        if accepted:
            key, intent = accepted[which % len(accepted)]
            answer = self.runner.run(self.clients.send(key, intent))
            assert answer.status_code in (200, 202), answer.text

    @rule(call=st.sampled_from(CALLS))
    def hold(self, call: str) -> None:
        if call not in self.held:
            self.held.add(call)
            self.backend.hold(call)

    @rule()
    def release(self) -> None:
        self.runner.run(self._settle())

    @rule()
    def restart(self) -> None:
        """Another engine on the same database; what was unfinished goes on."""
        self.runner.run(self._restart())

    @rule(limit=st.integers(1, 4), space=spaces)
    def walk_while_others_change(self, limit: int, space: str) -> None:
        """No uid repeats and the order holds, whatever changes meanwhile (HA-34)."""
        more = [(KEYS[0], self._intent("create", "a", space, 0)), (KEYS[1], self._intent("update", "0", "", 0))]
        self.runner.run(self._burst(more, self.clients.walk(limit), self.clients.walk(limit, space=space)))

    @invariant()
    def generations_have_no_gap(self) -> None:
        for uid, generations in self.memory.generations.items():
            if uid in self.memory.names:
                assert sorted(generations) == list(range(1, len(generations) + 1)), generations

    def teardown(self) -> None:
        try:
            if hasattr(self, "clients"):
                self.runner.run(self._compare())
        finally:
            self.runner.run(self._close())
            self.runner.close()
            self.folder.cleanup()

    def _intent(self, kind: str, which: str, space: str, stale: int) -> Intent:
        if kind == "create":
            return Intent("POST", "/resources", name=which, space=space)
        uids = list(self.memory.names) or ["r-none"]
        uid = uids[int(which) % len(uids)]
        generation = max(0, max(self.memory.generations.get(uid, {1: ""})) + stale)
        return Intent("PUT" if kind == "update" else "DELETE", f"/resources/{uid}", generation)

    async def _burst(self, requests: list[tuple[str, Intent]], *others: Any) -> None:
        await asyncio.gather(*(self.clients.send(key, intent) for key, intent in requests), *others)

    async def _settle(self) -> None:
        """Let everything finish; afterwards each Operation has succeeded."""
        for call in self.held:
            self.backend.release(call)
        self.held.clear()
        for key, first in list(self.memory.operations.items()):
            operation = await self.engine.operation(OWNER, first["id"])
            while not operation.status.is_terminal:
                operation = await self.engine.wait_for_settlement(operation)
            answer = await self.clients.send(key, self.memory.intents[key])
            assert (answer.status_code, answer.json()["status"]) == (200, "succeeded"), answer.text

    async def _restart(self) -> None:
        await self._close()
        await self._start()

    async def _close(self) -> None:
        for call in self.held:
            self.backend.release(call)
        self.held.clear()
        await self.stack.aclose()

    async def _compare(self) -> None:
        """At rest the host holds exactly what was accepted and not deleted."""
        await self._settle()
        listed = {item["uid"]: item for item in await self.clients.walk(3)}
        living = {uid for uid in self.memory.names if uid not in self.memory.deleted}
        assert set(listed) == living
        assert len({(item["space"], item["name"]) for item in listed.values()}) == len(listed), "a name twice"
        for uid, item in listed.items():
            newest = max(self.memory.generations[uid])
            assert (item["generation"], item["observedGeneration"], item["phase"]) == (newest, newest, "idle")
            assert item["lastOperation"] == self.memory.generations[uid][newest]
            assert (item["space"], item["name"]) == self.memory.names[uid]
        for uid in self.memory.deleted:
            assert (await self.clients.http.get(f"/apis/forms.takoform.com/v2/resources/{uid}")).status_code in (
                404,
                410,
            )
        assert set(self.backend.workers) == living


def run(examples: int, steps: int) -> None:
    run_state_machine_as_test(
        ConcurrentClients,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.req("HA-31", "HA-34", "HA-37", "HA-38", "HA-51", "HA-52", "HA-53")
def test_concurrent_clients_never_see_two_truths() -> None:
    run(8, 12)


@pytest.mark.long
@pytest.mark.req("HA-31", "HA-34", "HA-37", "HA-38", "HA-51", "HA-52", "HA-53")
def test_concurrent_clients_never_see_two_truths_in_long_histories() -> None:
    run(150, 40)
