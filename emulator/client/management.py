"""A host's management listener as calls: held artifacts, clock, instances. Outside every contract."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from emulator.client.connection import Connection, json_object
from emulator.client.errors import RequestRefused


class Management:
    """Raises `RequestRefused` with the listener's own code and message, `HostUnreachable`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def put_artifact(self, content: bytes, principal: str = "local") -> str:
        """Have the host hold `content`; returns its digest."""
        digest = hashlib.sha256(content).hexdigest()
        self._call("PUT", f"/v1/artifacts/sha256/{digest}?principal={quote(principal, safe='')}", content)
        return digest

    def clock(self) -> dict[str, Any]:
        return self._call("GET", "/v1/clock")

    def change_clock(self, change: str, body: bytes = b"") -> dict[str, Any]:
        """`freeze`, `thaw`, `advance` with `{"seconds": n}`, `run-to-idle`."""
        return self._call("POST", f"/v1/clock/{change}", body)

    def instances(self, workflow_uid: str) -> list[dict[str, Any]]:
        """All of them, page by page, in order of creation."""
        path = f"/v1/workflows/{workflow_uid}/instances"
        page = self._call("GET", path)
        items: list[dict[str, Any]] = page["items"]
        while page["next"] is not None:
            page = self._call("GET", f"{path}?after={page['next']}")
            items += page["items"]
        return items

    def create_instance(self, workflow_uid: str, body: Mapping[str, object]) -> str:
        """`{"id"?, "params"?}`; gives the id."""
        path = f"/v1/workflows/{workflow_uid}/instances"
        return str(self._call("POST", path, json.dumps(body).encode())["id"])

    def send_event(self, workflow_uid: str, instance_id: str, body: Mapping[str, object]) -> None:
        """`{"type", "payload"?}`."""
        self._call("POST", f"{_path_of(workflow_uid, instance_id)}/events", json.dumps(body).encode())

    def terminate(self, workflow_uid: str, instance_id: str) -> None:
        self._call("POST", f"{_path_of(workflow_uid, instance_id)}/terminate")

    def listeners(self) -> dict[str, Any]:
        """The origins of this start."""
        return self._call("GET", "/v1/listeners")

    def arm_fault(self, name: str, action: str = "kill", nth: int = 1) -> None:
        """Let the host die, or fail, when it reaches the point for the nth time."""
        self._call("POST", "/v1/faults", json.dumps({"name": name, "action": action, "nth": nth}).encode())

    def withdrawals(self) -> list[dict[str, Any]]:
        """Versions that left the weights."""
        items: list[dict[str, Any]] = self._call("GET", "/v1/withdrawals")["items"]
        return items

    def instance(self, workflow_uid: str, instance_id: str) -> dict[str, Any]:
        return self._call("GET", _path_of(workflow_uid, instance_id))

    def processes(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self._call("GET", "/v1/processes")["items"]
        return items

    def _call(self, method: str, path: str, content: bytes | None = None) -> dict[str, Any]:
        response = self._connection.send(method, path, content=content)
        body = json_object(response)
        if response.status_code != 200:
            error = body.get("error") or {}
            raise RequestRefused(response.status_code, str(error.get("code", "")), str(error.get("message", "")))
        return body


def _path_of(workflow_uid: str, instance_id: str) -> str:
    return f"/v1/workflows/{workflow_uid}/instances/{quote(instance_id, safe='')}"
