"""A database file that may not grow, as on a full disk, and that may again."""

from host.sqlite import Database
from host.sqlite.confinement import ConfinedConnection
from host.sqlite.connection import run_whole

_MOST_PAGES = 1_073_741_823


async def allow_few_pages(database: Database, count: int = 0) -> None:
    """From now on a write that needs more than `count` further pages fails: database or disk is full."""

    def limit(connection: ConfinedConnection) -> None:
        connection._is_controlling = True
        pages = connection.pragma("page_count")
        connection._is_controlling = False
        assert isinstance(pages, int)
        connection.control(f"PRAGMA max_page_count = {pages + count}")

    await run_whole(database._writer, limit)


async def allow_pages(database: Database) -> None:
    """There is room again."""
    await run_whole(database._writer, lambda connection: connection.control(f"PRAGMA max_page_count = {_MOST_PAGES}"))
