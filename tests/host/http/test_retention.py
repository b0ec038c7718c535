"""What is kept how long: Operations with their keys, markers of deleted Resources, cursors."""

from pathlib import Path

import pytest

from host.engine.limits import Limits
from host.model.time import LATEST_MS, ControlledClock, timestamp
from tests.host.api import START_MS, Api, running_api

WINDOW_MS = 86_400_000


@pytest.mark.req("HA-54", "HA-52", "HA-36")
async def test_operation_and_key_stay_together_until_retention_ends(api: Api) -> None:
    first = (await api.create("ModuleWorker", "w", {}, key="key-kept-00000000")).json()
    uid = first["resourceUid"]
    deleted = (await api.delete(uid, 1)).json()
    assert first["retainUntil"] == timestamp(START_MS + WINDOW_MS)

    api.clock.move_to(START_MS + WINDOW_MS)
    await api.engine.sweep()
    assert (await api.create("ModuleWorker", "w", {}, key="key-kept-00000000")).json() == first
    assert (await api.operation(deleted["id"]))["status"] == "succeeded"
    assert (await api.get(f"/resources/{uid}")).status_code == 410

    api.clock.move_to(START_MS + WINDOW_MS + 1)
    await api.engine.sweep()
    assert (await api.get(f"/operations/{first['id']}")).status_code == 404
    assert (await api.get(f"/resources/{uid}")).status_code == 404
    again = (await api.create("ModuleWorker", "w", {}, key="key-kept-00000000")).json()
    assert again["resourceUid"] != uid
    rows = await api.database.read(lambda tx: tx.execute("SELECT count(*) FROM idempotency_keys"))
    assert rows == [(1,)]


@pytest.mark.req("HA-54", "HA-39")
async def test_a_late_end_extends_retention_and_nothing_unfinished_is_dropped(api: Api) -> None:
    api.backend.hold("workers.register")
    first = (await api.create("ModuleWorker", "w", {}, key="key-late-00000000")).json()
    api.clock.move_to(START_MS + 5 * WINDOW_MS)
    await api.engine.sweep()
    assert (await api.operation(first["id"]))["status"] == "running"
    api.backend.release("workers.register")
    done = await api.settled(first["id"])
    assert done["retainUntil"] == timestamp(START_MS + 6 * WINDOW_MS)
    api.clock.move_to(START_MS + 7 * WINDOW_MS)
    await api.engine.sweep()
    resource = await api.resource(first["resourceUid"])
    assert resource["lastOperation"] == first["id"]
    assert (await api.get(f"/operations/{first['id']}")).status_code == 404
    assert (await api.update(first["resourceUid"], 1, {})).status_code == 200


@pytest.mark.req("HA-54")
async def test_retention_happens_by_itself_as_time_goes_on(api: Api) -> None:
    first = (await api.create("ModuleWorker", "w", {})).json()
    api.clock.move_to(START_MS + 2 * WINDOW_MS)
    while (await api.get(f"/operations/{first['id']}")).status_code == 200:
        await api.database.read(lambda tx: None)


@pytest.mark.req("HA-55")
async def test_a_shorter_window_shortens_nothing_that_was_promised(tmp_path: Path) -> None:
    path, clock = tmp_path / "control.sqlite", ControlledClock.frozen(START_MS)
    async with running_api(path, clock=clock) as api:
        first = (await api.create("ModuleWorker", "w", {}, key="key-long-00000000")).json()
        backend = api.backend
    limits = Limits(settle_wait_s=0.2, replay_window_s=60)
    async with running_api(path, backend, clock, limits) as api:
        clock.move_to(START_MS + WINDOW_MS)
        await api.engine.sweep()
        assert await api.operation(first["id"]) == first
        assert (await api.create("ModuleWorker", "w", {}, key="key-long-00000000")).json() == first


@pytest.mark.req("HA-34")
async def test_an_old_cursor_is_expired(api: Api) -> None:
    for name in ("a", "b"):
        await api.worker(name)
    cursor = (await api.get("/resources", limit=1)).json()["nextCursor"]
    api.clock.move_to(START_MS + WINDOW_MS)
    assert (await api.get("/resources", cursor=cursor)).status_code == 200
    api.clock.move_to(START_MS + WINDOW_MS + 1)
    answer = await api.get("/resources", cursor=cursor)
    assert (answer.status_code, answer.json()["code"]) == (409, "cursor_expired")


@pytest.mark.req("HA-03", "HA-38")
async def test_a_counter_at_its_maximum_never_wraps(api: Api) -> None:
    uid = await api.worker()
    largest = 9007199254740991
    await api.database.write(lambda tx: tx.execute("UPDATE resources SET generation = ?", (largest - 1,)))
    assert (await api.update(uid, largest - 1, {})).json()["generation"] == largest
    answer = await api.update(uid, largest, {})
    assert (answer.status_code, answer.json()["code"]) == (409, "generation_conflict")
    assert (await api.resource(uid))["generation"] == largest


@pytest.mark.req("HA-55", "HA-54")
async def test_an_operation_that_ends_under_a_shorter_window_keeps_its_promise(tmp_path: Path) -> None:
    path, clock = tmp_path / "control.sqlite", ControlledClock.frozen(START_MS)
    async with running_api(path, clock=clock) as api:
        api.backend.hold("workers.register")
        first = (await api.create("ModuleWorker", "w", {})).json()
        backend = api.backend
    backend.release("workers.register")
    async with running_api(path, backend, clock, Limits(settle_wait_s=0.2, replay_window_s=60)) as api:
        assert (await api.settled(first["id"]))["retainUntil"] == first["retainUntil"]


@pytest.mark.req("HA-05", "HA-54")
async def test_the_last_instant_of_the_calendar_is_no_failure(api: Api) -> None:
    api.clock.move_to(LATEST_MS)
    operation = (await api.create("ModuleWorker", "w", {})).json()
    assert operation["retainUntil"] == operation["updatedAt"] == "9999-12-31T23:59:59.999Z"
    await api.engine.sweep()
    assert (await api.operation(operation["id"]))["status"] == "succeeded"
