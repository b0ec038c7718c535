"""Units of work are durable when acknowledged, whole or absent, whoever else is in the group."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import apsw
import pytest

from host.sqlite import (
    ConstraintFailed,
    Database,
    DatabaseCorrupt,
    DatabaseError,
    DatabaseUnusable,
    NewerDatabase,
    StatementRefused,
    Transaction,
    ValueRefused,
)
from host.sqlite.confinement import ConfinedConnection, Confinement, Limits

APPLICATION_ID = 0x74616B6F
Work = Callable[[Transaction], int]
SCHEMA = "CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT;"
_PARTIAL = "CREATE INDEX things_x ON things (id) WHERE name = 'x'; CREATE INDEX things_name ON things (name);"


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    opened = await Database.open(tmp_path / "a.sqlite", application_id=APPLICATION_ID, migrations=[SCHEMA])
    yield opened
    await opened.close()


def _insert(identifier: int, verb: str = "INSERT") -> Work:
    def work(transaction: Transaction) -> int:
        transaction.execute(f"{verb} INTO things VALUES (?, 'x')", (identifier,))
        return transaction.changes

    return work


def _named(name: str) -> Work:
    def work(transaction: Transaction) -> int:
        return len(transaction.query("SELECT name FROM things WHERE name = ?", (name,)).rows)

    return work


async def _ids(database: Database) -> list[object]:
    return [row[0] for row in await database.read(lambda t: t.execute("SELECT id FROM things ORDER BY id"))]


async def test_a_failing_member_of_a_group_undoes_itself_alone(database: Database) -> None:
    await database.write(_insert(2))
    results = await asyncio.gather(*(database.write(_insert(i)) for i in (1, 2, 3)), return_exceptions=True)
    assert [type(result) for result in results] == [int, ConstraintFailed, int]
    assert await _ids(database) == [1, 2, 3]


async def test_a_member_that_was_to_fail_is_not_run_again(database: Database) -> None:
    class Meant(Exception):
        is_for_good = True

    runs: list[str] = []

    def failing(name: str, error: Exception) -> Work:
        def work(transaction: Transaction) -> int:
            runs.append(name)
            raise error

        return work

    works = [_insert(1), failing("meant", Meant()), failing("other", KeyError()), _insert(2)]
    results = await asyncio.gather(*map(database.write, works), return_exceptions=True)
    assert [type(result) for result in results] == [int, Meant, KeyError, int]
    assert runs.count("meant") == 1
    assert await _ids(database) == [1, 2]
    results = await asyncio.gather(
        *map(database.write, [failing("first", KeyError()), _insert(3)]), return_exceptions=True
    )
    assert [type(result) for result in results] == [KeyError, int]
    assert runs.count("first") == 1, "it saw nothing of others that could be undone"


async def test_a_member_that_fails_after_a_write_takes_nobody_elses_with_it(database: Database) -> None:
    def fails(transaction: Transaction) -> int:
        transaction.execute("INSERT INTO things VALUES (7, 'x')")
        return _insert(2)(transaction)

    await database.write(_insert(2))
    works = [_insert(1), fails, _insert(3), fails, _insert(4)]
    results = await asyncio.gather(*(database.write(work) for work in works), return_exceptions=True)
    assert [type(result) for result in results] == [int, ConstraintFailed, int, ConstraintFailed, int]
    assert await _ids(database) == [1, 2, 3, 4]


async def test_a_constraint_that_only_the_commit_finds_broken_fails_its_own_member_alone(database: Database) -> None:
    deferred = "id INTEGER REFERENCES things DEFERRABLE INITIALLY DEFERRED"
    await database.write(lambda t: t.execute(f"CREATE TABLE parts ({deferred}) STRICT"))

    def breaks(transaction: Transaction) -> int:
        transaction.execute("INSERT INTO parts VALUES (99)")
        return 1

    works = [_insert(1), breaks, _insert(2)]
    results = await asyncio.gather(*(database.write(work) for work in works), return_exceptions=True)
    assert [type(result) for result in results] == [int, ConstraintFailed, int]
    assert await _ids(database) == [1, 2]
    assert await database.read(lambda t: t.execute("SELECT * FROM parts")) == []


async def test_a_statement_that_is_run_again_answers_as_the_first_time(database: Database) -> None:
    sql = "INSERT INTO things VALUES (?, 'x') ON CONFLICT DO NOTHING"
    answers = [await database.write(partial(Transaction.query, sql=sql, parameters=(n,))) for n in (1, 2, 2, 3)]
    assert [(each.columns, each.rows, each.changes, each.last_row_id) for each in answers] == [
        ((), [], changes, row_id) for changes, row_id in ((1, 1), (1, 2), (0, 2), (1, 3))
    ]
    with pytest.raises(StatementRefused):
        await database.write(lambda t: t.query(sql, (1, 2)))
    with pytest.raises(ValueRefused):
        await database.write(lambda t: t.query(sql, (2**63,)))
    with pytest.raises(StatementRefused):
        await database.write(lambda t: t.query(f"{sql}; {sql}", (8, 9)))
    assert await _ids(database) == [1, 2, 3]


async def test_a_member_that_ends_the_transaction_loses_nobody_elses_work(database: Database) -> None:
    await database.write(_insert(2))
    works = [_insert(1), _insert(2, "INSERT OR ROLLBACK"), _insert(3)]
    results = await asyncio.gather(*(database.write(work) for work in works), return_exceptions=True)
    assert [type(result) for result in results] == [int, ConstraintFailed, int]
    assert await _ids(database) == [1, 2, 3]


async def test_a_unit_that_raises_after_a_write_leaves_nothing(database: Database) -> None:
    def work(transaction: Transaction) -> None:
        transaction.execute("INSERT INTO things VALUES (7, 'x')")
        raise LookupError("changed my mind")

    with pytest.raises(LookupError, match="changed my mind"):
        await database.write(work)
    assert await _ids(database) == []


async def test_units_run_in_the_order_they_were_submitted(database: Database) -> None:
    first = database.submit(lambda t: t.execute("INSERT INTO things VALUES (1, 'first')"))
    second = database.submit(lambda t: t.execute("UPDATE things SET name = name || ' second' WHERE id = 1"))
    await asyncio.gather(first, second)
    assert await database.read(lambda t: t.execute("SELECT name FROM things")) == [("first second",)]


@pytest.mark.req("DW-35")
async def test_an_urgent_unit_waits_for_the_unit_that_runs_and_for_no_other(database: Database) -> None:
    order: list[int] = []
    runs, goes_on = threading.Event(), threading.Event()

    def noting(number: int) -> Work:
        def work(transaction: Transaction) -> int:
            order.append(number)
            if number == 0:
                runs.set()
                goes_on.wait(10)
            return number

        return work

    waiting = [database.submit(noting(number)) for number in range(200)]
    await asyncio.to_thread(runs.wait, 10)
    urgent = [database.submit(noting(number), is_urgent=True) for number in (-2, -1)]
    goes_on.set()
    assert await asyncio.gather(*urgent) == [-2, -1]
    assert await asyncio.gather(*waiting) == list(range(200))
    assert order == [0, -2, -1, *range(1, 200)]


@pytest.mark.req("DW-35")
async def test_a_statement_is_prepared_once_whatever_it_is_bound_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time it is, the authorizer takes a turn of Python for every table and column that it names."""
    limits = Limits(100, 10_000, 100, 100, 10, 10, 50, 10_000)
    asked: list[object] = []

    def authorize(connection: ConfinedConnection, *what: object) -> int:
        asked.append(what)
        return apsw.SQLITE_OK

    monkeypatch.setattr(ConfinedConnection, "_authorize", authorize)
    database = await Database.open(
        tmp_path / "a.sqlite",
        application_id=APPLICATION_ID,
        migrations=[SCHEMA, _PARTIAL],
        confinement=Confinement(limits, frozenset(), frozenset()),
    )
    before = len(asked)
    await database.write(_named("a"))
    assert len(asked) > before
    first = len(asked)
    for name in "bcd":
        await database.write(_named(name))
    await database.close()
    assert len(asked) == first


async def test_a_cancelled_caller_does_not_withdraw_its_write(database: Database) -> None:
    task = asyncio.create_task(database.write(_insert(1)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await database.write(_insert(2))
    assert await _ids(database) == [1, 2]


async def test_a_reader_cannot_write(database: Database) -> None:
    with pytest.raises(DatabaseError):
        await database.read(_insert(1))
    assert await _ids(database) == []


@pytest.mark.parametrize("value", [object(), 2**63, {"a": 1}])
async def test_a_value_sqlite_cannot_hold_is_refused_and_nothing_is_written(database: Database, value: object) -> None:
    with pytest.raises(StatementRefused):
        await database.write(lambda t: t.execute("INSERT INTO things VALUES (1, ?)", (value,)))  # type: ignore[arg-type]
    assert await _ids(database) == []


async def test_a_closed_database_refuses_work_and_keeps_what_was_queued(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    database = await Database.open(path, application_id=APPLICATION_ID, migrations=[SCHEMA])
    queued = database.submit(_insert(1))
    await database.close()
    assert await queued == 1
    with pytest.raises(DatabaseError, match="closed"):
        await database.write(_insert(2))


async def test_the_settings_of_the_file_are_the_documented_ones(database: Database) -> None:
    """P06"""

    def settings(transaction: Transaction) -> list[object]:
        names = ("journal_mode", "synchronous", "auto_vacuum", "application_id", "user_version")
        return [transaction.execute(f"PRAGMA {name}")[0][0] for name in names]

    assert await database.read(settings) == ["wal", 2, 2, APPLICATION_ID, 1]


async def test_an_older_file_is_copied_and_brought_forward(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    old = await Database.open(path, application_id=APPLICATION_ID, migrations=[SCHEMA])
    await old.write(_insert(1))
    await old.close()
    newer = [SCHEMA, "ALTER TABLE things ADD COLUMN colour TEXT;"]
    new = await Database.open(path, application_id=APPLICATION_ID, migrations=newer)
    assert await new.read(lambda t: t.execute("SELECT id, colour FROM things")) == [(1, None)]
    await new.close()
    assert (tmp_path / "a.sqlite.schema-1.bak").exists()
    with pytest.raises(NewerDatabase, match="upgrade"):
        await Database.open(path, application_id=APPLICATION_ID, migrations=[SCHEMA])


async def test_a_refused_file_is_left_byte_for_byte(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with closing(sqlite3.connect(path)) as plain:  # not in WAL mode
        plain.executescript(f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = 9; {SCHEMA}")
    before = path.read_bytes()
    with pytest.raises(NewerDatabase):
        await Database.open(path, application_id=APPLICATION_ID, migrations=[SCHEMA])
    assert path.read_bytes() == before


async def test_a_failing_migration_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    await (await Database.open(path, application_id=APPLICATION_ID, migrations=[SCHEMA])).close()
    broken = [SCHEMA, "ALTER TABLE things ADD COLUMN a TEXT; ALTER TABLE absent ADD COLUMN b TEXT;"]
    with pytest.raises(DatabaseError, match="absent"):
        await Database.open(path, application_id=APPLICATION_ID, migrations=broken)
    same = await Database.open(path, application_id=APPLICATION_ID, migrations=[SCHEMA])
    assert len(await same.read(lambda t: t.execute("PRAGMA table_info(things)"))) == 2
    await same.close()


async def test_a_file_that_is_no_database_or_anothers_is_refused_unchanged(tmp_path: Path) -> None:
    garbage = tmp_path / "garbage"
    garbage.write_bytes(b"not a database" * 200)
    with pytest.raises(DatabaseCorrupt):
        await Database.open(garbage, application_id=APPLICATION_ID, migrations=[SCHEMA])
    assert garbage.read_bytes() == b"not a database" * 200
    foreign = tmp_path / "foreign.sqlite"
    await (await Database.open(foreign, application_id=1, migrations=[SCHEMA])).close()
    with pytest.raises(DatabaseUnusable, match="another application"):
        await Database.open(foreign, application_id=APPLICATION_ID, migrations=[SCHEMA])


_WRITER = """
import asyncio, sys
from pathlib import Path
from host.sqlite import Database
async def main():
    database = await Database.open(Path(sys.argv[1]), application_id=int(sys.argv[2]), migrations=[sys.argv[3]])
    for i in range(100000):
        await database.write(lambda t: t.execute("INSERT INTO things VALUES (?, 'x')", (i,)))
        print(i, flush=True)
    await database.close()
asyncio.run(main())
"""


async def test_every_acknowledged_write_survives_sigkill(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    command = [sys.executable, "-c", _WRITER, str(path), str(APPLICATION_ID), SCHEMA]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    acknowledged = [int(process.stdout.readline()) for _ in range(50)]
    os.kill(process.pid, signal.SIGKILL)
    acknowledged += [int(line) for line in process.stdout.read().split()]
    process.stdout.close()
    process.wait()
    database = await Database.open(path, application_id=APPLICATION_ID, migrations=[SCHEMA])
    assert set(acknowledged) <= set(await _ids(database))
    await database.close()


async def test_two_processes_write_one_file_without_losing_a_write(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    command = [sys.executable, "-c", _WRITER.replace("100000", "200"), str(path), str(APPLICATION_ID), SCHEMA]
    database = await Database.open(path, application_id=APPLICATION_ID, migrations=[SCHEMA])
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL)
    for identifier in range(1000, 1200):
        await database.write(_insert(identifier))
    assert await process.wait() == 0
    assert len(await _ids(database)) == 400
    await database.close()
