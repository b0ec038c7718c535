"""One life of the host as the demo sees it: its process and the three ways to speak to it. Knows no fixture."""

import json
import time
from collections.abc import Sequence
from pathlib import Path

from emulator.client import Connection, HostApi, Management, Patience, RequestRefused
from emulator.demo.errors import DemoFailed
from emulator.demo.fixture import FixtureRequest
from emulator.demo.processes import HostProcess
from emulator.demo.sightings import Sighting, read_sighting

_PATIENCE = Patience(deadline_s=60.0, now_s=time.monotonic, sleep_s=time.sleep)


class Life:
    """A running host. Every call raises `HostUnreachable` once it was killed."""

    def __init__(self, words: Sequence[str], ready_file: Path, log: Path) -> None:
        self.process = HostProcess(words, ready_file, log)
        ready = self.process.ready
        self._api_connection = Connection(ready.api, ca=ready.ca)
        self._ingress = Connection(ready.ingress)
        self._management_connection = Connection(ready.management, token=ready.management_token())
        self.management = Management(self._management_connection)

    def api(self) -> HostApi:
        return HostApi(self._api_connection, _PATIENCE)

    def ask_worker(self, request: FixtureRequest) -> None:
        """Send a request to the Worker's own fetch handler. Raises `DemoFailed` unless it answers 2xx."""
        content = None if request.body is None else json.dumps(request.body).encode()
        headers = {"Content-Type": "application/json"} if content is not None else {}
        answer = self._ingress.send(request.method, request.path, content=content, headers=headers)
        if not answer.is_success:
            raise DemoFailed(
                f"the Worker answered {request.method} {request.path} with {answer.status_code}: {answer.text[:200]}"
            )

    def look(self, workflow_uid: str, instance_id: str) -> Sighting | None:
        """The instance as management shows it; None while there is none of that id."""
        try:
            return read_sighting(self.management.instance(workflow_uid, instance_id))
        except RequestRefused as refused:
            if refused.code == "not_found":
                return None
            raise

    def close(self) -> None:
        for connection in (self._api_connection, self._ingress, self._management_connection):
            connection.close()
