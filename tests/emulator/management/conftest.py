"""The management app over ASGI, with a real custody of artifacts and stand-ins for the rest."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from emulator.artifacts import SCHEMA, ArtifactCustody
from emulator.management import ClockControl, ManagementParts, ProcessFigures, create_app
from emulator.runtime.app_log import AppLog
from emulator.workflow import ErrorName, InstanceRefused
from host.model.errors import ErrorCode, HostError
from host.model.faults import FaultPoints
from host.model.json import JsonObject
from host.model.operation_states import Effect
from host.model.records import Operation
from host.model.time import ControlledClock, RealTime
from host.sqlite import Database
from tests.emulator.management.test_trigger_routes import Triggers

START_MS = 1_800_000_000_000
TOKEN = "secret"
HOST = "127.0.0.1:9"


class Idle:
    async def next_due_ms(self) -> int | None:
        return START_MS + 5000

    async def idle(self) -> None:
        return None

    def executing(self) -> tuple[str, ...]:
        return ()


class Instances:
    async def list_instances(
        self, workflow_uid: str, after: int, most: int
    ) -> tuple[list[JsonObject], int | None] | None:
        if workflow_uid != "w":
            return None
        page: list[JsonObject] = [{"id": name} for name in "abc"[after : after + most]]
        return page, after + most if len(page) == most else None

    async def show_instance(self, workflow_uid: str, instance_id: str) -> AsyncIterator[str] | None:
        return self._told(workflow_uid, instance_id) if workflow_uid == "w" else None

    async def _told(self, workflow_uid: str, instance_id: str) -> AsyncIterator[str]:
        yield '{"uid":'
        yield f"{json.dumps(workflow_uid)},"
        yield f'"id":{json.dumps(instance_id)}}}'


class Settlements:
    """Settles nothing."""

    async def settle(self, operation_id: str, effect: Effect, message: str) -> Operation | None:
        return None


class Calls:
    def __init__(self) -> None:
        self.made: list[tuple[str | None, ...]] = []

    async def create(self, workflow_uid: str, instance_id: str | None, params_text: str | None) -> str:
        self.made.append(("create", workflow_uid, instance_id, params_text))
        if instance_id in set(ErrorName):
            raise InstanceRefused(ErrorName(str(instance_id)), "told so")
        return instance_id or "issued"

    async def send_event(self, workflow_uid: str, instance_id: str, event_type: str, payload: str | None) -> None:
        self.made.append(("send", workflow_uid, instance_id, event_type, payload))

    async def terminate(self, workflow_uid: str, instance_id: str) -> None:
        self.made.append(("terminate", workflow_uid, instance_id))


class Withdrawals:
    async def list_withdrawals(self) -> list[JsonObject]:
        return [{"versionUid": "v"}]


class Processes:
    def processes(self) -> tuple[ProcessFigures, ...]:
        return (ProcessFigures("gateway", 7, 1000, None),)


@pytest.fixture
def faults() -> FaultPoints:
    return FaultPoints()


@pytest.fixture
def calls() -> Calls:
    return Calls()


class Principals:
    """Those that the host knows: as its token file says now."""

    def __init__(self) -> None:
        self.names: tuple[str, ...] | None = ("zoe", "local")

    def __call__(self) -> tuple[str, ...]:
        if self.names is None:
            raise HostError(ErrorCode.TEMPORARILY_UNAVAILABLE, "nobody can tell")
        return self.names


@pytest.fixture
def principals() -> Principals:
    return Principals()


@pytest.fixture
def triggers() -> Triggers:
    return Triggers()


@pytest.fixture
async def client(
    tmp_path: Path, faults: FaultPoints, calls: Calls, principals: Principals, triggers: Triggers
) -> AsyncIterator[httpx.AsyncClient]:
    database = await Database.open(tmp_path / "db", application_id=1, migrations=(SCHEMA,))
    parts = ManagementParts(
        artifacts=await ArtifactCustody.open(database, tmp_path / "artifacts"),
        principals=principals,
        clock=ClockControl(ControlledClock.frozen(START_MS), Idle(), RealTime()),
        instances=Instances(),
        calls=calls,
        withdrawals=Withdrawals(),
        faults=faults,
        processes=Processes(),
        openapi=lambda: {"openapi": "3.1.0"},
        operations=Settlements(),
        words=AppLog(lambda: START_MS),
        listeners={"ingressTls": "https://localhost:1"},
        triggers=triggers,
    )
    transport = httpx.ASGITransport(create_app(parts, hosts=[HOST], token=TOKEN), raise_app_exceptions=False)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}", headers=headers) as opened:
        yield opened
    await database.close()
