"""Real hosts as processes, for tests of the whole: start, speak, kill. Reuses the demo's own ways to do so."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from emulator.client import (
    DURABLE_WORKFLOW,
    MODULE_WORKER,
    WORKER_BUNDLE,
    WORKER_DEPLOYMENT,
    WORKER_VERSION,
    Connection,
    HostApi,
    Management,
    Patience,
    Resource,
)
from emulator.demo.deploy import upload_bundle
from emulator.demo.fixture import FixtureVersion, ModuleSource
from emulator.demo.processes import HostProcess

DEADLINE_S = 20.0
JS = "application/javascript+module"


class TestHost:
    """A running `takohost serve` and clients of its three listeners."""

    __test__ = False

    def __init__(self, folder: Path, *options: str) -> None:
        folder.mkdir(exist_ok=True)
        words = ["--state-dir", str(folder / "state"), "--ingress-port", "0", *options]
        self.process = HostProcess(words, folder / "ready.json", folder / "host.log")
        self.ready = self.process.ready
        self.log = folder / "host.log"
        self.ready_file = folder / "ready.json"
        self._connections = [
            Connection(self.ready.api, ca=self.ready.ca),
            Connection(self.ready.management, token=self.ready.management_token()),
            Connection(self.ready.ingress),
        ]
        self.api_connection, self.management_connection, self.ingress = self._connections
        self.management = Management(self.management_connection)

    def api(self) -> HostApi:
        return HostApi(self._connections[0], Patience(DEADLINE_S, time.monotonic, time.sleep))

    def children(self) -> list[int]:
        """Pids of gateway and runners."""
        return [item["pid"] for item in self.management.processes() if item["role"] != "host"]

    def at(self, origin: str) -> Connection:
        """A connection to the TLS ingress for an address that has no port; its owner closes it."""
        port = urlsplit(self.ready.ingress_tls).port
        return Connection(origin, ca=self.ready.ca, connect_to=f"127.0.0.1:{port}")

    def serve(self, name: str, source: str, handlers: Sequence[str] = ("fetch",)) -> tuple[Resource, Resource]:
        """A Worker of one module and the Deployment that gives it all work."""
        api = self.api()
        worker = api.create(MODULE_WORKER, "test", name, {})
        spec = all_to(worker, self.version(worker, f"{name}-v1", source, handlers))
        return worker, api.create(WORKER_DEPLOYMENT, "test", f"{name}-live", spec)

    def version(self, worker: Resource, name: str, source: str, handlers: Sequence[str] = ("fetch",)) -> Resource:
        """A Version of one module."""
        api = self.api()
        files = FixtureVersion(name, "main.js", 10000, (ModuleSource("main.js", JS, source.encode()),))
        artifact = upload_bundle(files, self.management)
        bundle = api.create(WORKER_BUNDLE, "test", f"{name}-bundle", {"artifact": artifact})
        spec = {
            "worker": {"resourceUid": worker.uid},
            "bundle": {"resourceUid": bundle.uid},
            "handlers": list(handlers),
        }
        return api.create(WORKER_VERSION, "test", name, spec)

    def deploy(self, name: str, source: str, class_name: str, variables: Mapping[str, object] | None = None) -> str:
        """A Worker of one module with the Workflow `class_name` bound as `env.WF`; returns the Workflow's uid."""
        api = self.api()
        worker = {"resourceUid": api.create(MODULE_WORKER, "test", name, {}).uid}
        spec = {"worker": worker, "className": class_name}
        workflow = {"resourceUid": api.create(DURABLE_WORKFLOW, "test", f"{name}-workflow", spec).uid}
        version = FixtureVersion("v1", "main.js", 10000, (ModuleSource("main.js", JS, source.encode()),))
        artifact = upload_bundle(version, self.management)
        bundle = api.create(WORKER_BUNDLE, "test", f"{name}-bundle", {"artifact": artifact})
        built = api.create(
            WORKER_VERSION,
            "test",
            f"{name}-v1",
            {
                "worker": worker,
                "bundle": {"resourceUid": bundle.uid},
                "handlers": ["fetch"],
                "vars": dict(variables or {}),
                "workflowBindings": [{"name": "WF", "resource": workflow}],
            },
        )
        weights = [{"workerVersion": {"resourceUid": built.uid}, "weight": 10000}]
        api.create(WORKER_DEPLOYMENT, "test", f"{name}-live", {"worker": worker, "versions": weights})
        return workflow["resourceUid"]

    def ask(self, path: str, method: str = "GET") -> httpx.Response:
        """A request to the only Worker."""
        return self.ingress.send(method, path)

    def close(self) -> None:
        for connection in self._connections:
            connection.close()
        if self.process.is_alive:
            self.process.kill()


def all_to(worker: Resource, version: Resource) -> dict[str, object]:
    """The spec of a Deployment with one Version."""
    weights = [{"workerVersion": {"resourceUid": version.uid}, "weight": 10000}]
    return {"worker": {"resourceUid": worker.uid}, "versions": weights}


@contextmanager
def running_host(folder: Path, *options: str) -> Iterator[TestHost]:
    host = TestHost(folder, *options)
    try:
        yield host
    finally:
        host.close()


def wait_until(claim: Callable[[], bool], deadline_s: float = DEADLINE_S) -> None:
    """Return once the claim holds; fails after the deadline."""
    until_s = time.monotonic() + deadline_s
    while not claim():
        assert time.monotonic() < until_s, "not within the deadline"
        time.sleep(0.01)


def is_gone(pid: int) -> bool:
    """Whether no process of that pid runs; one that waits to be reaped has ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return not _exists(pid)
    return state in "ZX"


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
