"""A host that makes a Worker, a bundle and a Version under fixed keys, and may be told to die on the way.

Run as a child: `python -m tests.host.engine.crash_child DIRECTORY [POINT]`. Prints the Operations as JSON.
"""

import asyncio
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from host.engine.limits import Limits
from tests.host.api import Api, ref, running_api
from tests.host.backend import FakeBackend


@dataclass
class JournalingBackend(FakeBackend):
    """Writes every call down before it does it."""

    journal: Path = field(default_factory=Path)

    async def enter(self, call: str, uid: str) -> None:
        with self.journal.open("a") as lines:
            lines.write(f"{call} {uid}\n")
        await super().enter(call, uid)


async def create(api: Api, form: str, name: str, spec: dict[str, Any]) -> dict[str, object]:
    answer = await api.create(form, name, spec, key=f"key-of-{name:0>16}")
    assert answer.status_code in (200, 202), answer.text
    return await api.settled(answer.json()["id"])


async def main(directory: Path, point: str | None) -> None:
    backend = JournalingBackend(journal=directory / "journal")
    artifact = backend.store_bundle([], ["C"])
    limits = Limits(settle_wait_s=0.05)
    async with running_api(directory / "control.sqlite", backend, limits=limits, kill_at=point) as api:
        worker = await create(api, "ModuleWorker", "worker", {})
        bundle = await create(api, "WorkerBundle", "bundle", {"artifact": artifact})
        spec = {"worker": ref(str(worker["resourceUid"])), "bundle": ref(str(bundle["resourceUid"])), "handlers": []}
        version = await create(api, "WorkerVersion", "version", spec)
        print(json.dumps([worker, bundle, version]))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None))
