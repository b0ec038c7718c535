"""Workers of one module on a real host, as tests of the whole deploy them: short forms over the clients."""

import json
from collections.abc import Mapping
from typing import Any

from emulator.client import MODULE_WORKER, WORKER_BUNDLE, WORKER_DEPLOYMENT, WORKER_VERSION, Resource
from emulator.client.connection import json_object
from emulator.demo.deploy import upload_bundle
from emulator.demo.fixture import FixtureVersion, ModuleSource
from tests.emulator.compose.hosts import JS, TestHost


def ref(resource: Resource) -> dict[str, str]:
    return {"resourceUid": resource.uid}


def first_line(line: Mapping[str, Any]) -> str:
    """The message of a line without the frames below it."""
    return str(line["message"]).partition("\n")[0]


class Workers:
    """Makes Workers, Versions and Deployments in the Space `test`, and speaks to the management listener."""

    def __init__(self, host: TestHost) -> None:
        self.host = host
        self.api = host.api()

    def worker(self, name: str) -> Resource:
        return self.api.create(MODULE_WORKER, "test", name, {})

    def version(
        self,
        worker: Resource,
        name: str,
        source: str,
        handlers: tuple[str, ...] = ("fetch",),
        secrets: Mapping[str, str] | None = None,
        **spec: object,
    ) -> Resource:
        """A Version with a bundle of its own."""
        module = ModuleSource("main.js", JS, source.encode())
        artifact = upload_bundle(FixtureVersion("v", "main.js", 10000, (module,)), self.host.management)
        bundle = self.api.create(WORKER_BUNDLE, "test", f"{name}-bundle", {"artifact": artifact})
        whole = {"worker": ref(worker), "bundle": ref(bundle), "handlers": list(handlers), **spec}
        if secrets is None:
            return self.api.create(WORKER_VERSION, "test", name, whole)
        return self._with_secrets(name, {**whole, "requiredSensitiveVars": sorted(secrets)}, secrets)

    def deploy(self, worker: Resource, *weights: tuple[Resource, int]) -> Resource:
        """Put these weights in force for the first time."""
        name = f"live-{worker.uid[-8:]}".lower()
        return self.api.create(WORKER_DEPLOYMENT, "test", name, {"worker": ref(worker), "versions": shares(*weights)})

    def reweigh(self, deployment: Resource, *weights: tuple[Resource, int]) -> Resource:
        return self.api.update(deployment, {**deployment.spec, "versions": shares(*weights)})

    def serve(self, name: str, source: str, handlers: tuple[str, ...] = ("fetch",), **spec: Any) -> Resource:
        """A Worker with one Version that takes everything; returns the Worker."""
        worker = self.worker(name)
        self.deploy(worker, (self.version(worker, f"{name}-v1", source, handlers, **spec), 10000))
        return worker

    def manage(self, method: str, path: str, body: object = None) -> tuple[int, dict[str, Any]]:
        """Status and answer of the management listener."""
        content = None if body is None else json.dumps(body).encode()
        answer = self.host.management_connection.send(method, path, content=content)
        return answer.status_code, json_object(answer)

    def fire(self, worker: Resource, handler: str, body: object) -> dict[str, Any]:
        """What became of a call by hand."""
        status, answer = self.manage("POST", f"/v1/workers/{worker.uid}/{handler}", body)
        assert status == 200, answer
        return answer

    def logs(self) -> list[dict[str, Any]]:
        """The lines kept, oldest first."""
        answer = self.host.management_connection.send("GET", "/v1/logs")
        return [json.loads(line) for line in answer.text.splitlines()]

    def _with_secrets(self, name: str, spec: dict[str, Any], secrets: Mapping[str, str]) -> Resource:
        body = {"form": WORKER_VERSION, "space": "test", "name": name, "spec": spec, "privateInputs": dict(secrets)}
        url = self.api.discovery.base_url + "/resources"
        headers = {"Idempotency-Key": f"key-of-{name:0>20}", "Content-Type": "application/json"}
        answer = self.host.api_connection.send("POST", url, content=json.dumps(body).encode(), headers=headers)
        assert answer.status_code in (200, 202), answer.text
        made = self.api.find("test", name)
        assert made is not None
        return made


def shares(*weights: tuple[Resource, int]) -> list[dict[str, object]]:
    return [{"workerVersion": ref(version), "weight": weight} for version, weight in weights]
