"""How long one instance of one step takes from its creation to its end, beside the context alone. Printed only."""

import os
import statistics
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from emulator.catalog import Catalog
from emulator.d1 import CONFINEMENT, Database, FileDriver
from emulator.runtime.pool import PoolSettings
from emulator.workflow import APPLICATION_ID, MIGRATIONS, Engine
from host import sqlite
from host.model.faults import FaultPoints
from host.model.time import ControlledClock, RealTime
from host.ports import VersionRecord, Weight
from tests.bench.test_contexts import STEP, measure
from tests.emulator.runtime.conftest import PATIENT, Pools, ScriptedHost, pools, write_code
from tests.emulator.workflow.hosts import KEYS, WORKER, WORKFLOW

__all__ = ["pools"]

COUNT = 60
FLOW = f"export class Flow {{ async run(event, step) {{ {STEP} }} }}"


@asynccontextmanager
async def engine(scripted: ScriptedHost, folder: Path) -> AsyncIterator[Engine]:
    """An engine on real processes with one Version in force."""
    file = await sqlite.Database.open(
        folder / "e.sqlite", application_id=APPLICATION_ID, migrations=MIGRATIONS, confinement=CONFINEMENT
    )
    database = Database(FileDriver(file))
    catalog = Catalog(database, KEYS)
    opened = await Engine.open(
        database,
        ControlledClock(),
        RealTime(),
        lambda: uuid.uuid4().hex,
        FaultPoints.none(),
        scripted.pool,
        lambda: 0.0,
        lambda pid, started: False,
        KEYS,
        lambda notice: None,
    )
    await opened.gates.open(WORKFLOW, WORKER, "Flow")
    digest = write_code(folder / "code", {"main.js": FLOW})
    await catalog.put_version(VersionRecord("v1", WORKER, digest, {}, (), ("fetch",), ("Flow",)))
    await catalog.activate("deployment-1", WORKER, (Weight("v1", 10_000),), 0)
    opened.start()
    yield opened
    await opened.close()
    await file.close()


async def latency_ms(opened: Engine, number: int) -> float:
    began_s = time.perf_counter()
    await opened.instances.create(WORKFLOW, f"i{number}", None)
    await opened.idle()
    took_s = time.perf_counter() - began_s
    assert (await opened.instances.status(WORKFLOW, f"i{number}")).status == "complete"
    return took_s * 1000


@pytest.mark.bench
@pytest.mark.req("DW-10")
async def test_from_the_creation_of_an_instance_of_one_step_to_its_end(pools: Pools, tmp_path: Path) -> None:
    context, _ = await measure(pools, STEP)
    scripted = await pools.open(PoolSettings(2, stop=PATIENT))
    async with engine(scripted, tmp_path) as opened:
        found = sorted([await latency_ms(opened, number) for number in range(COUNT)])
    print(
        f"\n{COUNT} instances of one step, one after the other: p50 {statistics.median(found):.1f} ms, "
        f"p95 {found[int(COUNT * 0.95)]:.1f} ms, the context alone {statistics.median(context):.1f} ms "
        f"(load {os.getloadavg()[0]:.1f})"
    )
