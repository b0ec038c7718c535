"""The Host API as calls: a fresh key per intent, the identical request repeated, Operations polled (HA-93)."""

import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

import httpx

from emulator.client.connection import Connection, json_object
from emulator.client.discovery import discover
from emulator.client.errors import (
    HostUnreachable,
    OperationFailed,
    OutcomeUnknown,
    RequestRefused,
    UnexpectedAnswer,
)
from emulator.client.records import Operation, OperationStatus, Resource, read_operation, read_resource

_POLL_S = 0.1
_UNDECIDED_STATUSES = frozenset((429, 500, 502, 503, 504))


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a mutation is followed, in real time; `now_s` and `sleep_s` are the two ends of one clock."""

    deadline_s: float
    now_s: Callable[[], float]
    sleep_s: Callable[[float], None]


class HostApi:
    """A host reached through one connection. Construction runs discovery. Raises `InvalidDiscovery`."""

    def __init__(self, connection: Connection, patience: Patience) -> None:
        self._connection = connection
        self._patience = patience
        self.discovery = discover(connection)

    def support(self, form: str) -> dict[str, Any]:
        """What the host says of a Form URL (HA-24)."""
        return self._get("/support?" + urlencode({"form": form}))

    def create(self, form: str, space: str, name: str, spec: Mapping[str, Any]) -> Resource:
        """Create and wait for success; returns the Resource. Raises `RequestRefused`, `OperationFailed`."""
        body = {"form": form, "space": space, "name": name, "spec": spec}
        return self.read(self._mutate("POST", "/resources", body).resource_uid)

    def update(self, resource: Resource, spec: Mapping[str, Any]) -> Resource:
        """Replace the spec of the generation seen in `resource` and wait for success."""
        self._mutate("PUT", _resource_route(resource.uid), {"spec": spec}, resource.generation)
        return self.read(resource.uid)

    def delete(self, resource: Resource) -> None:
        """Delete the generation seen in `resource` and wait for success."""
        self._mutate("DELETE", _resource_route(resource.uid), None, resource.generation)

    def read(self, uid: str) -> Resource:
        return read_resource(self._get(_resource_route(uid)))

    def find(self, space: str, name: str) -> Resource | None:
        """The Resource of that name, or None."""
        items = self._get("/resources?" + urlencode({"space": space, "name": name}))["items"]
        return read_resource(items[0]) if items else None

    def operation(self, operation_id: str) -> Operation:
        return read_operation(self._get(f"/operations/{quote(operation_id, safe='')}"))

    def _get(self, route: str) -> dict[str, Any]:
        return _accepted(self._connection.send("GET", self.discovery.base_url + route))

    def _mutate(
        self, method: str, route: str, body: Mapping[str, Any] | None, expected_generation: int | None = None
    ) -> Operation:
        """Send one intent until the host has answered it, then follow its Operation to the end."""
        headers = {"Idempotency-Key": secrets.token_hex(16)}
        if expected_generation is not None:
            headers["Takoform-Expected-Generation"] = str(expected_generation)
        content = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            content = json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
        until_s = self._patience.now_s() + min(self._patience.deadline_s, self.discovery.replay_window_s)
        response = self._send_until_answered(method, self.discovery.base_url + route, content, headers, until_s)
        return self._follow(read_operation(_accepted(response)), until_s)

    def _send_until_answered(
        self, method: str, url: str, content: bytes | None, headers: Mapping[str, str], until_s: float
    ) -> httpx.Response:
        while True:
            try:
                response = self._connection.send(method, url, content=content, headers=headers)
                if response.status_code not in _UNDECIDED_STATUSES:
                    return response
                doubt = f"{method} {url}: {response.status_code}"
            except HostUnreachable as error:
                doubt = str(error)
            self._wait(until_s, doubt)

    def _follow(self, operation: Operation, until_s: float) -> Operation:
        while True:
            match operation.status:
                case OperationStatus.SUCCEEDED:
                    return operation
                case OperationStatus.FAILED:
                    raise OperationFailed(operation.id, operation.error_code, operation.error_message, operation.effect)
                case OperationStatus.WAITING_INPUT:
                    raise UnexpectedAnswer(f"operation {operation.id} waits for private inputs")
                case OperationStatus.QUEUED | OperationStatus.RUNNING | OperationStatus.RECONCILING:
                    reason = operation.error_message or "no reason given"
                    self._wait(until_s, f"operation {operation.id} is {operation.status.value}: {reason}")
            try:
                operation = self.operation(operation.id)
            except HostUnreachable as error:
                self._wait(until_s, str(error))

    def _wait(self, until_s: float, doubt: str) -> None:
        if self._patience.now_s() >= until_s:
            raise OutcomeUnknown(f"gave up while the outcome is open ({doubt}): read the Resource before anything else")
        self._patience.sleep_s(_POLL_S)


def _resource_route(uid: str) -> str:
    return f"/resources/{quote(uid, safe='')}"


def _accepted(response: httpx.Response) -> dict[str, Any]:
    """The body of a 200 or 202. Raises `RequestRefused`, `UnexpectedAnswer`."""
    if response.status_code in (200, 202):
        return json_object(response)
    if response.status_code >= 400:
        problem = json_object(response)
        code, detail = str(problem.get("code", "")), str(problem.get("detail", ""))
        raise RequestRefused(response.status_code, code, detail)
    raise UnexpectedAnswer(f"{response.status_code} from {response.url}")
