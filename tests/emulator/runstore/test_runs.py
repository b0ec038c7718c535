"""Run rows: the snapshot's text, and statements that change exactly what they say or nothing."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from emulator.d1 import Database, FileDriver, Statement
from emulator.runstore.address import RunAddress
from emulator.runstore.errors import AdmissionBrokenError
from emulator.runstore.schema import OWNER, SETTLED, STATUS, migrations
from emulator.runstore.snapshot import (
    Lifecycle,
    RunFailure,
    RunStatus,
    Snapshot,
    SnapshotUnreadable,
    TerminalRecord,
    TransitionIntent,
    decode,
    encode,
)
from emulator.runstore.statements import change_at, insert_initial

AT = "2026-01-01T00:00:00.000Z"
ADDRESS = RunAddress("w", "r\0/\U0001f600")
OWNED = '{"lifecycle":{"owner":"o2"}}'
FIRST = Snapshot(RunStatus.PENDING, AT, Lifecycle(1, "o1", deadline_at=AT), params='{"a":1.5,"b":"\\u0000é"}')


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    driver = await FileDriver.open(tmp_path / "a.sqlite", application_id=7, migrations=migrations())
    yield Database(driver)
    await driver.close()


async def _snapshot(database: Database) -> str:
    return str(await database.prepare("SELECT snapshot FROM runs").first("snapshot"))


@pytest.mark.parametrize(
    "snapshot",
    [
        FIRST,
        Snapshot(
            RunStatus.RUNNING,
            AT,
            Lifecycle(4, "o", "v1", AT, TransitionIntent(RunStatus.ERRORED, AT)),
            output="{}",
            error=RunFailure("run_threw", "é"),
        ),
        Snapshot(RunStatus.COMPLETE, AT, Lifecycle(3, "o", terminal=TerminalRecord(RunStatus.COMPLETE, AT))),
        Snapshot(RunStatus.ERRORED, AT, Lifecycle(2, "o"), error=RunFailure("lifetime_exceeded")),
    ],
)
def test_a_snapshot_is_read_back_as_it_was_written(snapshot: Snapshot) -> None:
    assert decode(encode(snapshot)) == snapshot


@pytest.mark.req("RS-01")
def test_of_repeated_keys_the_first_is_read() -> None:
    text = encode(FIRST)[:-1] + ',"status":"complete"}'
    assert decode(text).status is RunStatus.PENDING


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"status":"new"}', "[" * 100_000])
def test_a_row_of_another_shape_is_unreadable(text: str) -> None:
    with pytest.raises(SnapshotUnreadable):
        decode(text)


@pytest.mark.req("RS-11")
async def test_the_first_row_is_inserted_once_and_only_under_its_condition(database: Database) -> None:
    refused, first, second = await database.batch(
        [
            insert_initial(ADDRESS, FIRST, None, "1 = :one", {"one": 2}),
            insert_initial(ADDRESS, FIRST, "resource"),
            insert_initial(ADDRESS, FIRST, None),
        ]
    )
    assert (refused.changes, first.changes, second.changes) == (0, 1, 0)
    assert await _snapshot(database) == encode(FIRST)


@pytest.mark.req("RS-70")
async def test_a_change_touches_named_members_and_leaves_the_rest_as_stored(database: Database) -> None:
    await database.batch([insert_initial(ADDRESS, FIRST, None)])
    later = "2026-01-01T00:00:01.000Z"
    members = {"$.status": "'running'", "$.lifecycle.owner": ":next"}
    values = {"next": "o2", "at": later, "owner": "o1"}
    condition = f"{OWNER} = :owner AND {STATUS} = 'pending'"
    change = change_at(ADDRESS, members, ("$.lifecycle.deadlineAt",), condition, values)
    applied, again = await database.batch([change, change])
    assert (applied.changes, again.changes) == (1, 0)
    stored = json.loads(await _snapshot(database))
    assert list(stored) == ["status", "timestamp", "lifecycle", "params"]
    assert stored["lifecycle"] == {"version": 1, "revision": 2, "owner": "o2"}
    assert stored["params"] == FIRST.params
    assert await database.prepare("SELECT updated_at, created_at FROM runs").raw() == [(later, AT)]


@pytest.mark.req("RS-62")
async def test_a_row_that_sqlite_cannot_parse_is_stored_and_met_by_no_change(database: Database) -> None:
    await database.batch([Statement("INSERT INTO runs VALUES ('w', 'x', NULL, '{bad', ?, ?)", (AT, AT))])
    change = change_at(RunAddress("w", "x"), {}, (), "TRUE", {"at": AT})
    assert not (await database.batch([change]))[0].is_applied
    assert await _snapshot(database) == "{bad"


@pytest.mark.req("RS-10", "RS-62")
async def test_a_file_from_before_the_derived_columns_is_brought_forward_with_every_row(tmp_path: Path) -> None:
    first, second = migrations()
    path = tmp_path / "old.sqlite"
    old = await FileDriver.open(path, application_id=7, migrations=[first])
    rows = [("w", "a", None, encode(FIRST), AT, AT), ("w", "b", "r", "{bad", AT, AT), ("v", "c", None, OWNED, AT, AT)]
    insert = "INSERT INTO runs (rowid, workflow_id, run_id, resource_id, snapshot, created_at, updated_at)"
    values = [(number, *row) for number, row in zip((9, 4, 7), rows, strict=True)]
    await Database(old).batch([Statement(f"{insert} VALUES (?, ?, ?, ?, ?, ?, ?)", each) for each in values])
    await old.close()
    driver = await FileDriver.open(path, application_id=7, migrations=[first, second])
    found = (
        await Database(driver)
        .prepare(
            f"SELECT rowid, workflow_id, run_id, resource_id, snapshot, {STATUS}, {OWNER}, {SETTLED} FROM runs ORDER BY rowid"
        )
        .raw()
    )
    await driver.close()
    assert found == [
        (4, "w", "b", "r", "{bad", None, None, None),
        (7, "v", "c", None, OWNED, None, "o2", 0),
        (9, "w", "a", None, encode(FIRST), "pending", "o1", 0),
    ]


@pytest.mark.req("RS-11")
def test_only_a_pending_snapshot_is_an_initial_one() -> None:
    with pytest.raises(AdmissionBrokenError):
        insert_initial(ADDRESS, Snapshot(RunStatus.RUNNING, AT, Lifecycle(1, "o1")), None)


@pytest.mark.req("RS-60")
async def test_a_change_that_ends_a_run_settles_it_and_no_other_does(database: Database) -> None:
    await database.batch([insert_initial(ADDRESS, FIRST, None)])
    for status, is_end in (("sleeping", False), ("errored", True)):
        await database.batch([change_at(ADDRESS, {"$.status": ":to"}, (), "TRUE", {"at": AT, "to": status})])
        terminal = decode(await _snapshot(database)).lifecycle.terminal
        assert terminal == (TerminalRecord(RunStatus.ERRORED, AT) if is_end else None)
        assert ("terminal" in await _snapshot(database)) is is_end
    [again] = await database.batch([change_at(ADDRESS, {"$.status": "'running'"}, (), "TRUE", {"at": AT})])
    assert not again.is_applied
