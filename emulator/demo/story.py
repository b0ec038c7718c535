"""The plot of a demo: start instances, send events, kill the host, restart it, wait. Prints nothing."""

import time
from collections.abc import Callable

from emulator.client import HostUnreachable
from emulator.demo.deploy import Deployed
from emulator.demo.errors import DemoFailed
from emulator.demo.fixture import Fixture, FixtureRequest
from emulator.demo.life import Life
from emulator.demo.sightings import Sighting

_POLL_S = 0.03
_KILL_DEADLINE_S = 60.0
_END_DEADLINE_S = 90.0


class Story:
    """One telling of a fixture. `tell` reports milestones in words."""

    def __init__(self, fixture: Fixture, deployed: Deployed, tell: Callable[[str], None]) -> None:
        self._fixture = fixture
        self._deployed = deployed
        self._tell = tell
        self._sent: set[int] = set()

    def before_the_kill(self, life: Life, *, by_counter: bool) -> int:
        """Run until the host is dead; returns the Unix ms of the kill. Raises `DemoFailed` if that never comes."""
        try:
            self._start_instances(life)
            return self._run_until_killed(life, by_counter=by_counter)
        except HostUnreachable:
            if by_counter and life.process.wait_killed(5.0):
                return _now_ms()
            raise

    def after_the_restart(self, life: Life) -> dict[str, Sighting]:
        """Start what is not there yet, send what was to wait for the restart, and see every instance end."""
        self._start_instances(life)
        until_s = time.monotonic() + _END_DEADLINE_S
        while True:
            seen = self._look(life)
            if all(sighting.is_terminal for sighting in seen.values()):
                return seen
            if time.monotonic() > until_s:
                open_ones = ", ".join(f"{s.id} is {s.status}" for s in seen.values() if not s.is_terminal)
                raise DemoFailed(f"not done after {_END_DEADLINE_S:g} s: {open_ones}")
            self._send_events(life, seen, restarted=True)
            time.sleep(_POLL_S)

    def _start_instances(self, life: Life) -> None:
        for request in self._fixture.requests:
            if life.look(self._deployed.workflow_uid, request.instance) is None:
                life.ask_worker(request)
                self._tell(f"started {request.instance} by {request.method} {request.path}")

    def _run_until_killed(self, life: Life, *, by_counter: bool) -> int:
        kill = self._fixture.kill
        until_s = time.monotonic() + _KILL_DEADLINE_S
        while time.monotonic() < until_s:
            seen = self._look(life)
            target = seen[kill.instance]
            is_moment = target.status == kill.when and kill.step in (None, target.pending_step())
            if is_moment and not by_counter:
                return self._kill(life, target)
            if all(sighting.is_terminal for sighting in seen.values()):
                raise DemoFailed(_ended_early(seen))
            self._send_events(life, seen, restarted=False)
            time.sleep(_POLL_S)
        raise DemoFailed("the moment to kill the host never came: no instance moved on")

    def _kill(self, life: Life, target: Sighting) -> int:
        at_ms = _now_ms()
        life.process.kill()
        self._tell(f"SIGKILL to host process {life.process.ready.pid} while {target.id} is {target.status}")
        return at_ms

    def _look(self, life: Life) -> dict[str, Sighting]:
        seen = {}
        for instance in self._fixture.instances():
            sighting = life.look(self._deployed.workflow_uid, instance)
            if sighting is None:
                raise DemoFailed(f"the Worker answered, but there is no instance {instance}")
            seen[instance] = sighting
        return seen

    def _send_events(self, life: Life, seen: dict[str, Sighting], *, restarted: bool) -> None:
        for event in self._fixture.events:
            if self._is_time(event, seen[event.instance], restarted=restarted):
                life.ask_worker(event)
                self._sent.add(id(event))
                self._tell(f"sent {event.method} {event.path} to {event.instance}")

    def _is_time(self, event: FixtureRequest, sighting: Sighting, *, restarted: bool) -> bool:
        """A request whose answer was lost counts as unsent; while its event is queued it is not repeated."""
        if id(event) in self._sent or sighting.queued_events > 0:
            return False
        wanted = event.when if event.when != "restarted" else "waiting"
        return sighting.status == wanted and (restarted or event.when != "restarted")


def _ended_early(seen: dict[str, Sighting]) -> str:
    """Errors first: they are why the moment never came."""
    errors = [f"{s.id}: {s.error.get('reason')}: {s.error.get('message')}" for s in seen.values() if s.error]
    return "; ".join([*errors, "the moment to kill the host never came: every instance ended first"])


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
