"""A page of a list costs the same however many Resources there are."""

import time
from collections.abc import AsyncIterator
from itertools import product
from pathlib import Path

import pytest

from host.model.records import ResourceFilter
from host.sqlite import Database, Transaction, Value
from host.store.resources import list_resources
from host.store.schema import APPLICATION_ID, MIGRATIONS

FORMS = ("https://a.example/x/", "https://a.example/y/")
PAGE = 100


def fill(tx: Transaction, owner: str, count: int) -> int:
    """`count` Resources in five Spaces of two Forms, their uids in no order."""
    tx.execute(
        "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?2)"
        " INSERT INTO resources SELECT printf('r-%08x-%s', (i * 2654435761) & 4294967295, ?1), ?1,"
        " CASE i % 2 WHEN 0 THEN ?3 ELSE ?4 END, 's' || (i % 5), 'n' || i,"
        " 1, 1, 0, 'idle', '{}', '{}', '{}', '{}', 'op-1' FROM n",
        (owner, count, *FORMS),
    )
    return tx.changes


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    opened = await Database.open(tmp_path / "c.sqlite", application_id=APPLICATION_ID, migrations=MIGRATIONS)
    yield opened
    await opened.close()


FILTERS = [ResourceFilter(*given) for given in product((None, "s1"), (None, "n1", "n6"), (None, FORMS[1]))]


@pytest.mark.req("HA-34")
@pytest.mark.parametrize("where", FILTERS, ids=str)
async def test_every_filter_walks_in_order_and_misses_nothing(database: Database, where: ResourceFilter) -> None:
    await database.write(lambda tx: (fill(tx, "alice", 300), fill(tx, "bob", 40)))
    condition = (
        "owner = 'alice' AND coalesce(?1, space) = space AND coalesce(?2, name) = name"
        " AND coalesce(?3, form_url) = form_url"
    )
    sql = f"SELECT uid FROM resources WHERE {condition} ORDER BY uid"
    expected = [
        uid for (uid,) in await database.read(lambda tx: tx.execute(sql, (where.space, where.name, where.form_url)))
    ]
    walked: list[str] = []
    while True:
        after = walked[-1] if walked else ""
        page = await database.read(lambda tx, after=after: list_resources(tx, "alice", where, after, 7))  # type: ignore[misc]
        walked += [each.uid for each in page]
        if len(page) < 7:
            break
    assert walked == expected


@pytest.mark.req("HA-34")
@pytest.mark.parametrize("where", FILTERS, ids=str)
async def test_no_page_sorts_or_scans(database: Database, where: ResourceFilter) -> None:
    seen: list[str] = []

    class Explaining:
        def execute(self, sql: str, parameters: object = ()) -> list[object]:
            seen.append(sql)
            return []

    list_resources(Explaining(), "alice", where, "", PAGE)  # type: ignore[arg-type]
    values: list[Value] = ["alice", "r-0", *(each for each in (where.space, where.name, where.form_url) if each), PAGE]
    plan = await database.read(lambda tx: tx.execute("EXPLAIN QUERY PLAN " + seen[0], values))
    steps = [str(row[3]) for row in plan]
    assert steps[0].startswith("SEARCH r USING")
    if where.space is None or where.name is None:
        assert not [step for step in steps if "TEMP B-TREE" in step]


@pytest.mark.bench
@pytest.mark.req("HA-34")
async def test_a_page_of_100000_takes_as_long_as_one_of_1000(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    await database.write(lambda tx: (fill(tx, "small", 1000), fill(tx, "large", 100_000)))
    found = {}
    for where, owner in product(
        (ResourceFilter(), ResourceFilter("s1"), ResourceFilter(form_url=FORMS[0])), ("small", "large")
    ):
        took = []
        for _ in range(50):
            started = time.perf_counter()
            await database.read(lambda tx: list_resources(tx, owner, where, "r-8", PAGE))  # noqa: B023
            took.append(time.perf_counter() - started)
        found[where, owner] = min(took)
    with capsys.disabled():
        for (where, owner), seconds in found.items():
            print(
                f"\n{owner:<6} {where.space or '-':<3} {where.form_url or '-':<22} {seconds * 1000:.2f} ms a page",
                end="",
            )
    for where, _ in found:
        assert found[where, "large"] <= 1.5 * found[where, "small"]
