"""A Host API under test: a real engine on a real database, an in-process client, and short forms of requests."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import httpx

from host.engine.engine import Engine
from host.engine.limits import EVERYTHING, Capabilities, Limits
from host.http.app import HttpSettings, create_app
from host.http.authentication import Authenticator, NoAuthentication
from host.http.routes import ROOT
from host.model.faults import FaultPoints
from host.model.ids import RandomIds
from host.model.private_keys import KEY_BYTES, PrivateKeys
from host.model.records import Principal
from host.model.time import Clock, ControlledClock, RealTime
from host.sqlite import Database
from host.store.schema import APPLICATION_ID, MIGRATIONS
from tests.host.backend import FakeBackend

ORIGIN = "https://127.0.0.1:7443"
START_MS = 1_760_000_000_000
FORMS = "https://edge.forms.takoform.com/forms"
VERSIONS = {
    "ModuleWorker": "0.3.0",
    "WorkerBundle": "0.2.0",
    "StaticAssetBundle": "0.2.0",
    "WorkerVersion": "0.5.0",
    "WorkerDeployment": "0.4.0",
    "DurableWorkflow": "0.3.0",
    "WorkerEndpoint": "0.3.0",
}
Json = dict[str, Any]
KEYS = PrivateKeys(b"k" * KEY_BYTES)
LOCAL = NoAuthentication()
_NUMBERS = count(1)


def form_url(form: str) -> str:
    return f"{FORMS}/{form}/{VERSIONS[form]}/"


def ref(uid: str) -> Json:
    return {"resourceUid": uid}


@dataclass
class Api:
    """`create` and its like send a fresh key unless one is given and return the raw answer."""

    client: httpx.AsyncClient
    engine: Engine
    database: Database
    backend: FakeBackend
    clock: ControlledClock
    faults: FaultPoints
    _numbers: "count[int]" = field(default_factory=lambda: _NUMBERS)

    principal: Principal = Principal("local")  # noqa: RUF009 - a frozen value

    def key(self) -> str:
        return f"key-{next(self._numbers):016d}"

    async def get(self, path: str, **parameters: str | int) -> httpx.Response:
        return await self.client.get(ROOT + path, params=parameters)

    async def create(
        self, form: str, name: str, spec: Json, key: str | None = None, space: str = "s", **more: Any
    ) -> httpx.Response:
        body = {"form": form_url(form), "space": space, "name": name, "spec": spec, **more}
        headers = {"idempotency-key": key or self.key()}
        return await self.client.post(f"{ROOT}/resources", json=body, headers=headers)

    async def update(
        self, uid: str, generation: int, spec: Json, key: str | None = None, **more: Any
    ) -> httpx.Response:
        headers = {"idempotency-key": key or self.key(), "takoform-expected-generation": str(generation)}
        return await self.client.put(f"{ROOT}/resources/{uid}", json={"spec": spec, **more}, headers=headers)

    async def preview(self, body: Json) -> httpx.Response:
        return await self.client.post(f"{ROOT}/previews", json=body)

    async def replenish(self, operation: str, inputs: Json) -> httpx.Response:
        return await self.client.put(f"{ROOT}/operations/{operation}/private-inputs", json={"privateInputs": inputs})

    async def delete(self, uid: str, generation: int, key: str | None = None) -> httpx.Response:
        headers = {"idempotency-key": key or self.key(), "takoform-expected-generation": str(generation)}
        return await self.client.delete(f"{ROOT}/resources/{uid}", headers=headers)

    async def resource(self, uid: str) -> Json:
        answer = await self.get(f"/resources/{uid}")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def operation(self, identifier: str) -> Json:
        answer = await self.get(f"/operations/{identifier}")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def settled(self, identifier: str) -> Json:
        """The Operation once it is decided."""
        operation = await self.engine.operation(Principal("local"), identifier)
        while not operation.status.is_terminal:
            operation = await self.engine.wait_for_settlement(operation)
        return await self.operation(identifier)

    async def made(self, form: str, name: str, spec: Json) -> str:
        """The uid of a Resource whose creation has succeeded."""
        answer = await self.create(form, name, spec)
        assert answer.status_code in (200, 202), answer.text
        operation = await self.settled(answer.json()["id"])
        assert operation["status"] == "succeeded", operation
        return str(operation["resourceUid"])

    async def worker(self, name: str = "w") -> str:
        return await self.made("ModuleWorker", name, {})

    async def version(
        self, worker: str, name: str, classes: tuple[str, ...] = (), handlers: tuple[str, ...] = ("fetch",)
    ) -> str:
        artifact = self.backend.store_bundle(list(handlers), list(classes), name)
        bundle = await self.made("WorkerBundle", f"{name}-bundle", {"artifact": artifact})
        spec = {"worker": ref(worker), "bundle": ref(bundle), "handlers": list(handlers)}
        return await self.made("WorkerVersion", name, spec)

    async def assets(self, name: str, *paths: str) -> str:
        """A StaticAssetBundle of files that hold their own paths."""
        artifact = self.backend.store_assets({path: path.encode() for path in paths})
        return await self.made("StaticAssetBundle", name, {"artifact": artifact})


def serving(bundle: str, runs_worker_first: bool = False, is_single_page: bool = False) -> Json:
    """The `assets` of a Version."""
    handling = "single_page_application" if is_single_page else "none"
    return {"bundle": ref(bundle), "runWorkerFirst": runs_worker_first, "notFoundHandling": handling}


def deployment_spec(worker: str, *weights: tuple[str, int]) -> Json:
    versions = [{"workerVersion": ref(uid), "weight": weight} for uid, weight in weights]
    return {"worker": ref(worker), "versions": versions}


async def open_engine(
    path: Path,
    backend: FakeBackend,
    clock: Clock,
    faults: FaultPoints,
    limits: Limits,
    keys: PrivateKeys = KEYS,
    capabilities: Capabilities = EVERYTHING,
) -> tuple[Database, Engine]:
    database = await Database.open(path, application_id=APPLICATION_ID, migrations=MIGRATIONS)
    engine = await Engine.open(
        database, clock, RealTime(), RandomIds(), backend.ports(), faults, limits, keys, capabilities
    )
    return database, engine


@asynccontextmanager
async def running_api(
    path: Path,
    backend: FakeBackend | None = None,
    clock: ControlledClock | None = None,
    limits: Limits | None = None,
    kill_at: str | None = None,
    keys: PrivateKeys = KEYS,
    capabilities: Capabilities = EVERYTHING,
    authenticator: Authenticator = LOCAL,
) -> AsyncIterator[Api]:
    backend = backend or FakeBackend()
    clock = clock or ControlledClock.frozen(START_MS)
    faults = FaultPoints.none()
    if kill_at is not None:
        faults.arm(kill_at)
    limits = limits or Limits(settle_wait_s=0.2)
    database, engine = await open_engine(path, backend, clock, faults, limits, keys, capabilities)
    app = create_app(engine, HttpSettings(origin=lambda: ORIGIN, authenticator=authenticator))
    transport = httpx.ASGITransport(app)
    try:
        await engine.start()
        async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as client:
            yield Api(client, engine, database, backend, clock, faults)
    finally:
        await engine.close()
        await database.close()
