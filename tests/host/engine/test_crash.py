"""A host that is killed between any two durable writes ends with one Operation and one uid per key."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from host.engine import acceptance, executor
from host.forms import held_bundle, worker_version
from host.sqlite import Database
from host.store.schema import APPLICATION_ID, MIGRATIONS
from tests.host.api import running_api

POINTS = (
    acceptance.BEFORE_COMMIT,
    acceptance.AFTER_COMMIT,
    executor.AFTER_TAKE,
    executor.AFTER_BACKEND,
    executor.AFTER_SETTLE,
    held_bundle.AFTER_MANIFEST,
    held_bundle.AFTER_FILE,
    worker_version.AFTER_VERIFY,
)


def run_child(directory: Path, point: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.host.engine.crash_child", str(directory), *([point] if point else [])]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def assert_ends_whole(directory: Path) -> list[dict[str, Any]]:
    finished = run_child(directory)
    assert finished.returncode == 0, finished.stderr
    operations: list[dict[str, Any]] = json.loads(finished.stdout)
    assert [(each["status"], each["effect"]) for each in operations] == [("succeeded", "complete")] * 3
    return operations


async def rows(directory: Path, sql: str) -> list[tuple[Any, ...]]:
    path = directory / "control.sqlite"
    database = await Database.open(path, application_id=APPLICATION_ID, migrations=MIGRATIONS)
    try:
        return list(await database.read(lambda tx: tx.execute(sql)))
    finally:
        await database.close()


@pytest.mark.req("HA-53", "HA-80", "HA-81")
@pytest.mark.parametrize("point", POINTS)
async def test_a_killed_host_goes_on_with_the_same_operation(tmp_path: Path, point: str) -> None:
    killed = run_child(tmp_path, point)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    before = await rows(tmp_path, "SELECT id, resource_uid FROM operations")

    operations = assert_ends_whole(tmp_path)

    after = await rows(tmp_path, "SELECT id, resource_uid FROM operations ORDER BY ord")
    assert after == [(each["id"], each["resourceUid"]) for each in operations]
    assert set(before) <= set(after)
    assert len(await rows(tmp_path, "SELECT uid FROM resources")) == 3
    holders = {line.split()[1] for line in (tmp_path / "journal").read_text().splitlines() if "hold" in line}
    assert holders == {operations[1]["resourceUid"]}


@pytest.mark.req("HA-42", "HA-46", "HA-81")
async def test_a_host_killed_again_while_it_recovers_still_ends_whole(tmp_path: Path) -> None:
    assert run_child(tmp_path, held_bundle.AFTER_FILE).returncode == -signal.SIGKILL
    assert ("running", 1) in await rows(tmp_path, "SELECT status, epoch FROM operations")
    assert run_child(tmp_path, executor.AFTER_RECONCILING).returncode == -signal.SIGKILL
    assert ("reconciling", 1) in await rows(tmp_path, "SELECT status, epoch FROM operations")
    assert run_child(tmp_path, executor.AFTER_BACKEND).returncode == -signal.SIGKILL
    assert_ends_whole(tmp_path)
    assert ("succeeded", 3) in await rows(tmp_path, "SELECT status, epoch FROM operations")


@pytest.mark.req("HA-81")
async def test_a_new_host_takes_up_what_was_never_sent(tmp_path: Path) -> None:
    assert run_child(tmp_path, acceptance.AFTER_COMMIT).returncode == -signal.SIGKILL
    async with running_api(tmp_path / "control.sqlite") as api:
        ((identifier,),) = await rows(tmp_path, "SELECT id FROM operations")
        assert (await api.settled(identifier))["status"] == "succeeded"
