"""One batch is one transaction, and each statement tells its rows and changes."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from emulator.d1 import Database, Statement, named
from host import sqlite


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    schema = "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT;"
    file = await sqlite.Database.open(tmp_path / "a.sqlite", application_id=7, migrations=[schema])
    yield Database(file)
    await file.close()


async def test_a_batch_gives_rows_and_changes_of_each_statement(database: Database) -> None:
    inserted, missed, updated, read = await database.batch(
        [
            Statement("INSERT INTO t VALUES (1, 'a'), (2, 'b')"),
            Statement("UPDATE t SET name = 'x' WHERE id = ?", (9,)),
            Statement("UPDATE t SET name = 'c' WHERE id = ?", (2,)),
            Statement("SELECT name FROM t ORDER BY id"),
        ]
    )
    assert (inserted.changes, missed.changes, updated.changes, read.changes) == (2, 0, 1, 0)
    assert not missed.is_applied and updated.is_applied
    assert read.rows == (("a",), ("c",))


async def test_a_batch_with_a_bad_statement_changes_nothing(database: Database) -> None:
    """S07"""
    for bad in (Statement("INSERT INTO nowhere VALUES (1)"), Statement("INSERT INTO t VALUES (5, NULL)")):
        with pytest.raises(sqlite.DatabaseError):
            await database.batch([Statement("INSERT INTO t VALUES (3, 'c')"), bad])
    assert await database.prepare("SELECT COUNT(*) FROM t").first() == (0,)


async def test_a_prepared_statement_is_bound_anew_each_time(database: Database) -> None:
    insert = database.prepare("INSERT INTO t VALUES (?, ?)")
    assert (await insert.bind(1, "a").run()).changes == 1
    assert (await insert.bind(2, "b").run()).changes == 1
    select = database.prepare("SELECT name FROM t WHERE id = ?")
    assert await select.bind(2).first() == ("b",)
    assert await select.bind(3).first() is None
    assert await database.prepare("SELECT id FROM t ORDER BY id").raw() == ((1,), (2,))
    assert (await database.prepare("DELETE FROM t RETURNING id").all()).changes == 2


async def test_submitted_batches_keep_the_order_of_the_calls(database: Database) -> None:
    futures = [database.submit([Statement("INSERT INTO t VALUES (?, ?)", (n, str(n)))]) for n in range(50)]
    futures.append(database.submit([Statement("SELECT COUNT(*) FROM t")]))
    *_, counted = [await future for future in futures]
    assert counted[0].rows == ((50,),)


def test_named_parameters_are_numbered_in_order_of_their_first_use() -> None:
    statement = named("SELECT :b, :a, :b_long, :b", {"a": 1, "b": 2, "b_long": 3, "unused": 4})
    assert statement == Statement("SELECT ?1, ?2, ?3, ?1", (2, 1, 3))
    with pytest.raises(KeyError):
        named("SELECT :missing", {})
