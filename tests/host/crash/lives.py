"""One life of a Host API in a process of its own: it makes one change under a fixed key, and may die on the way.

A life is a fork of a process that has imported everything and started nothing, so that hundreds are cheap.
"""

import asyncio
import json
import os
import pickle
import traceback
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from host.engine.limits import Limits
from tests.host.api import Api, Json, deployment_spec, ref, running_api, serving
from tests.host.backend import FakeBackend

KEY = "key-of-the-change-0"
SECRETS = {"TOKEN": "correct horse"}
ACTIONS = ("create", "update", "delete")
REPLENISH = "replenish"
HOUR_MS = 3_600_000
ASSETS = {"index.html": b"<p>", "empty": b""}


class DurableDict(dict[str, Any]):
    """Is on disk before a change returns: what a backend holds outlives the host that asked for it."""

    def __init__(self, path: Path) -> None:
        super().__init__(pickle.loads(path.read_bytes()) if path.exists() else {})
        self._path = path

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        self._save()

    def pop(self, name: str, *default: Any) -> Any:
        value = super().pop(name, *default)
        self._save()
        return value

    def _save(self) -> None:
        temporary = self._path.with_suffix(".new")
        temporary.write_bytes(pickle.dumps(dict(self)))
        temporary.replace(self._path)


def durable_backend(directory: Path) -> FakeBackend:
    """A backend whose objects are files of the directory."""
    backend = FakeBackend()
    for name in ("workers", "versions", "deployments", "workflows", "endpoints"):
        setattr(backend, name, DurableDict(directory / f"{name}.pickle"))
    for note in ("a", "b"):
        backend.store_bundle([], ["C"], note)
    backend.store_assets(ASSETS)
    return backend


async def prepare(api: Api) -> dict[str, str]:
    """Everything that a change of any Form needs: uids by Form, and by Form with a number for a second one."""
    worker = await api.worker("worker")
    found = {"ModuleWorker": await api.worker("spare"), "worker": worker}
    for note in ("a", "b"):
        artifact = api.backend.store_bundle([], ["C"], note)
        found[f"bundle-{note}"] = await api.made("WorkerBundle", f"bundle-{note}", {"artifact": artifact})
        spec = {"worker": ref(worker), "bundle": ref(found[f"bundle-{note}"]), "handlers": []}
        found[f"version-{note}"] = await api.made("WorkerVersion", f"version-{note}", spec)
    found["served"] = await api.worker("served")
    served = deployment_spec(found["served"], (await api.version(found["served"], "answering"), 10000))
    await api.made("WorkerDeployment", "serving", served)
    artifact = api.backend.store_assets(ASSETS)
    found["assets"] = await api.made("StaticAssetBundle", "assets", {"artifact": artifact})
    return found


async def target(api: Api, form: str, known: dict[str, str]) -> str:
    """The Resource that an update or delete changes; nothing refers to it."""
    if form == "ModuleWorker":
        return known["ModuleWorker"]
    answer = await api.create(form, "target", spec_of(api, form, known), **inputs_of(form))
    return str((await api.settled(answer.json()["id"]))["resourceUid"])


async def waiting(api: Api, form: str, known: dict[str, str]) -> str:
    """The id of a creation under the fixed key whose private inputs expired before it was taken up (HA-63)."""
    api.backend.hold("workers.register")
    worker = (await api.create("ModuleWorker", "slow", {})).json()
    spec = {**spec_of(api, form, known), "worker": ref(worker["resourceUid"])}
    queued = (await api.create(form, "waiting", spec, key=KEY, **inputs_of(form))).json()
    api.clock.move_to(api.clock.now_ms() + HOUR_MS)
    api.backend.release("workers.register")
    await api.settled(worker["id"])
    while (found := await api.operation(queued["id"]))["status"] == "queued":
        await api.engine.wait_for_settlement(await api.engine.operation(api.principal, queued["id"]))
    assert found["status"] == "waiting_input", found
    return str(found["id"])


def spec_of(api: Api, form: str, known: dict[str, str], is_update: bool = False) -> Json:
    """The spec to create or update with; only a Deployment's can be another one."""
    worker = {"worker": ref(known["worker"])}
    match form:
        case "ModuleWorker":
            return {}
        case "WorkerBundle":
            return {"artifact": api.backend.store_bundle([], ["C"], "a")}
        case "StaticAssetBundle":
            return {"artifact": api.backend.store_assets(ASSETS)}
        case "WorkerVersion":
            code = {**worker, "bundle": ref(known["bundle-a"]), "handlers": [], "requiredSensitiveVars": ["TOKEN"]}
            return {**code, "assets": serving(known["assets"], is_single_page=True)}
        case "WorkerDeployment":
            return deployment_spec(known["worker"], (known["version-b" if is_update else "version-a"], 10000))
        case "WorkerEndpoint":
            return {"worker": ref(known["served"])}
        case _:
            return {**worker, "className": "C"}


def inputs_of(form: str) -> Json:
    return {"privateInputs": SECRETS} if form == "WorkerVersion" else {}


async def change(api: Api, form: str, action: str, known: dict[str, str]) -> Json:
    """The one change, under its key; its Operation once it is decided."""
    match action:
        case "create":
            answer = await api.create(form, "made", spec_of(api, form, known), key=KEY, **inputs_of(form))
        case "update":
            answer = await api.update(known["target"], 1, spec_of(api, form, known, is_update=True), key=KEY)
        case "delete":
            answer = await api.delete(known["target"], 1, key=KEY)
        case _:
            return await replenish(api, known["operation"])
    assert answer.status_code in (200, 202), answer.text
    return await api.settled(answer.json()["id"])


async def replenish(api: Api, operation: str) -> Json:
    """The private inputs given again, in this life or for the second time; the Operation once it is decided."""
    answer = await api.replenish(operation, SECRETS)
    assert answer.status_code == 200 or answer.json()["code"] == "operation_terminal", answer.text
    return await api.settled(operation)


async def live(directory: Path, point: str | None, work: Callable[[Api], Coroutine[Any, Any, Json]]) -> Json:
    limits = Limits(settle_wait_s=0.05)
    backend = durable_backend(directory)
    async with running_api(directory / "control.sqlite", backend, limits=limits, kill_at=point) as api:
        return await work(api)


def fork(directory: Path, point: str | None, work: Callable[[Api], Coroutine[Any, Any, Json]]) -> tuple[int, Json]:
    """Live in a child: how it ended as `os.waitstatus_to_exitcode` says, and what the work returned."""
    said = directory / "said.json"
    said.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            said.write_text(json.dumps(asyncio.run(live(directory, point, work))))
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), json.loads(said.read_text()) if said.exists() else {}
