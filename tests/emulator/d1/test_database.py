"""What our own driver promises beyond D1: order, one statement a text, errors that name the statement."""

import base64
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from emulator.d1 import Database, FileDriver, Statement, named
from emulator.d1.wire import decode_value, encode_value
from host.model.json import JsonValue
from host.sqlite import ConstraintFailed, NotAuthorized, StatementRefused, Value, ValueRefused


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    schema = "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT;"
    driver = await FileDriver.open(tmp_path / "a.sqlite", application_id=7, migrations=[schema])
    yield Database(driver)
    await driver.close()


async def test_s07_the_error_names_the_statement_of_the_batch(database: Database) -> None:
    good = Statement("INSERT INTO t VALUES (3, 'c')")
    with pytest.raises(ConstraintFailed, match="statement 2 of 3: NOT NULL"):
        await database.batch([good, Statement("INSERT INTO t VALUES (5, NULL)"), good])
    with pytest.raises(StatementRefused, match="statement 2 of 2: no such table"):
        await database.batch([good, Statement("SELECT * FROM nowhere")])


async def test_a_result_without_rows_has_its_column_names(database: Database) -> None:
    empty = database.prepare("SELECT id, name AS n FROM t")
    assert (await empty.all()).columns == ("id", "n")
    assert await empty.raw(column_names=True) == [("id", "n")]


@pytest.mark.parametrize("sql", ["SELECT 1; SELECT 2", "INSERT INTO t VALUES (1, 'a'); SELECT 1", "", " -- nothing"])
async def test_a_prepared_statement_holds_one_statement(database: Database, sql: str) -> None:
    with pytest.raises(StatementRefused):
        await database.prepare(sql).run()
    assert await database.prepare("SELECT id FROM t").raw() == []


async def test_a_statement_that_reads_has_changed_nothing(database: Database) -> None:
    await database.prepare("INSERT INTO t VALUES (1, 'a')").run()
    counted, made = await database.batch(
        [Statement("WITH a AS (SELECT 1 AS b) SELECT b FROM a"), Statement("CREATE TABLE u (a)")]
    )
    assert (counted.changes, made.changes) == (0, 0)


async def test_submitted_batches_keep_the_order_of_the_calls(database: Database) -> None:
    futures = [database.submit([Statement("INSERT INTO t VALUES (?, ?)", (n, str(n)))]) for n in range(50)]
    futures.append(database.submit([Statement("SELECT COUNT(*) FROM t")]))
    *_, counted = [await future for future in futures]
    assert counted[0].rows == ((50,),)


async def test_s12_our_own_transaction_is_never_met_ready_made(database: Database) -> None:
    for sql in ("BEGIN IMMEDIATE", "SAVEPOINT member", "ROLLBACK TO member", "RELEASE member", "COMMIT", "BEGIN"):
        with pytest.raises(NotAuthorized):
            await database.batch([Statement("INSERT INTO t VALUES (1, 'a')"), Statement(sql)])
    assert await database.prepare("SELECT id FROM t").raw() == []


@pytest.mark.parametrize("value", [None, 0, -(2**63), 2**63 - 1, 2**53, 2**53 + 1, 1.5, "", "é\0", b"", b"\xff\x00"])
def test_s05_a_value_crosses_the_wire_unchanged(value: Value) -> None:
    assert decode_value(encode_value(value)) == value


@pytest.mark.parametrize(
    "wire",
    [
        {"bytes": "YQ"},
        {"bytes": "YR=="},
        {"bytes": "_-A="},
        {"bytes": "YWFh\nYWFh"},
        {"bytes": " YQ=="},
        {"bytes": base64.b64encode(b"a").decode() + "="},
        {"bytes": 1},
        {"bytes": "", "int": "1"},
        {"int": "5"},
        {"int": "009007199254740993"},
        {"int": "9223372036854775808"},
        {"int": "9" * 400},
        {"int": "-"},
        {},
        [],
        True,
        2**64,
    ],
)
def test_s05_the_wire_is_read_strictly(wire: JsonValue) -> None:
    with pytest.raises(ValueRefused):
        decode_value(wire)


def test_named_parameters_are_numbered_in_order_of_their_first_use() -> None:
    statement = named("SELECT :b, :a, :b_long, :b", {"a": 1, "b": 2, "b_long": 3, "unused": 4})
    assert statement == Statement("SELECT ?1, ?2, ?3, ?1", (2, 1, 3))
    with pytest.raises(KeyError):
        named("SELECT :missing", {})
