"""A full disk under the Host API: 503 and one line, and everything is done once there is room."""

import asyncio
import errno
import logging
from collections.abc import Callable

import pytest

from host.sqlite import DatabaseFull, Transaction
from tests.host.api import Api
from tests.host.sqlite.pages import allow_few_pages, allow_pages

FULL = OSError(errno.ENOSPC, "No space left on device")


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the log says, and that it has no traceback."""
    assert not [record for record in caplog.records if record.exc_info or record.levelno > logging.WARNING]
    return [record.getMessage() for record in caplog.records]


@pytest.mark.req("HA-13", "HA-14", "HA-51")
async def test_a_mutation_without_room_is_503_keeps_nothing_and_can_be_sent_again(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    await allow_few_pages(api.database)
    made: list[str] = []
    while (answer := await api.create("ModuleWorker", f"w{len(made)}", {}, key=f"key-{len(made):016d}")).is_success:
        made.append(answer.json()["resourceUid"])
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (503, "temporarily_unavailable")
    assert problem["detail"] == (
        "the host's disk is full or fails: send the same request with the same key once there is room"
    )
    assert answer.headers["retry-after"] == "1"
    assert len((await api.get("/resources")).json()["items"]) == len(made)
    assert told(caplog)[-1] == "temporarily_unavailable: database or disk is full"
    await allow_pages(api.database)
    again = await api.create("ModuleWorker", f"w{len(made)}", {}, key=f"key-{len(made):016d}")
    assert (await api.settled(again.json()["id"]))["status"] == "succeeded"
    assert len((await api.get("/resources")).json()["items"]) == len(made) + 1


@pytest.mark.req("HA-46", "HA-15")
@pytest.mark.parametrize("error", [FULL, DatabaseFull("database or disk is full")])
async def test_a_backend_without_room_is_asked_again_under_the_same_operation(
    api: Api, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    api.backend.fail("workers.register", *[error] * 1000)
    made = (await api.create("ModuleWorker", "w", {})).json()
    while (found := await api.operation(made["id"]))["status"] != "reconciling":
        await asyncio.sleep(0)
    assert found["error"] == {
        "code": "backend_unavailable",
        "message": "the host's disk is full or fails; the host tries again",
    }
    api.backend.failures.clear()
    assert (await api.settled(made["id"]))["status"] == "succeeded"
    assert all(line == f"operation {made['id']} is tried again: {error}" for line in told(caplog))


@pytest.mark.req("HA-46", "HA-81")
async def test_an_operation_that_cannot_be_taken_up_waits_for_room(
    api: Api, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, failures = api.database.write, [DatabaseFull("database or disk is full")] * 2

    async def fails_sometimes(work: Callable[[Transaction], object]) -> object:
        if failures and "_taking" in work.__qualname__:
            raise failures.pop()
        return await write(work)

    monkeypatch.setattr(api.database, "write", fails_sometimes)
    made = (await api.create("ModuleWorker", "w", {})).json()
    assert (await api.settled(made["id"]))["status"] == "succeeded"
    assert told(caplog) == [f"operation {made['id']} cannot be taken up: database or disk is full"] * 2
