"""Runs the store's batches: fault points around each, and an answer that is lost is said to be lost (RS-12, RS-71)."""

from collections.abc import Mapping, Sequence

from emulator.d1 import Database, Result, named
from emulator.runstore.address import RunAddress
from emulator.runstore.errors import RunOutcomeUnreadableError
from emulator.runstore.queries import Queries
from emulator.runstore.rows import RunRow, row_of
from host.model.faults import FaultPoints, InjectedFault, register
from host.sqlite import ConstraintFailed, DatabaseBusy, DatabaseError, StatementRefused, Value

ADMITTING = register("runstore.admitting", "before the batch of an initial admission")
ADMITTED = register("runstore.admitted", "after an initial admission is durable, before its caller knows")
PATCHING = register("runstore.patching", "before the statement that patches a lifecycle")
PATCHED = register("runstore.patched", "after a lifecycle is patched, before its caller knows")
REPLACING = register("runstore.replacing", "before the statement that replaces a snapshot")
REPLACED = register("runstore.replaced", "after a snapshot is replaced, before its caller knows")
ENDING = register("runstore.ending", "before the statement that ends an admitted start")
ENDED = register("runstore.ended", "after an admitted start is ended, before its caller knows")
PERSISTING = register("runstore.persisting", "before the batch of an ordinary snapshot write")
PERSISTED = register("runstore.persisted", "after an ordinary snapshot write is durable, before its caller knows")

_NOT_DONE = (ConstraintFailed, StatementRefused, DatabaseBusy)
"""Errors that tell: the transaction did not take place."""


def values_at(address: RunAddress) -> dict[str, Value]:
    """The parameters of an address."""
    return {"workflow_id": address.workflow_id, "run_id": address.run_id}


class Gateway:
    """The database, the statement texts and the fault points, as the parts of the store use them."""

    def __init__(self, database: Database, queries: Queries, faults: FaultPoints) -> None:
        self.database = database
        self.queries = queries
        self.faults = faults

    async def write(
        self, texts: Sequence[str], values: Mapping[str, Value], before: str | None = None, after: str | None = None
    ) -> list[Result]:
        """One batch, all texts with the same values. Raises `RunOutcomeUnreadableError` when no answer came.

        An error that tells that nothing was written is raised as it is (`DatabaseError`).
        """
        if before is not None:
            self.faults.reach(before)
        try:
            results = await self.database.batch([named(text, values) for text in texts])
            if after is not None:
                self.faults.reach(after)
        except _NOT_DONE:
            raise
        except (DatabaseError, InjectedFault) as error:
            raise RunOutcomeUnreadableError(f"nobody can tell whether the write took place: {error}") from error
        return results

    async def read_row(self, address: RunAddress) -> RunRow | None:
        """The row as it is stored now. Raises `DatabaseError`."""
        [found] = await self.database.query([named(self.queries.read, values_at(address))])
        return row_of(found.rows)
