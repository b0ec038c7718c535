"""A run row as it is stored, and how it is read. Changes nothing."""

from dataclasses import dataclass

from emulator.runstore.address import RunAddress
from host.sqlite.transaction import Row

COLUMNS = "workflow_id, run_id, resource_id, snapshot, created_at, updated_at"


@dataclass(frozen=True, slots=True)
class RunRow:
    """Every column, the snapshot's text untouched (RS-10).

    `lifecycle_text` is what SQLite's `->` gave in the same statement (RS-02); None without a lifecycle, or where
    SQLite cannot parse the snapshot. It is read, never stored, and no part of what equality means here.
    """

    workflow_id: str
    run_id: str
    resource_id: str | None
    snapshot: str
    created_at: str
    updated_at: str
    lifecycle_text: str | None = None

    @property
    def address(self) -> RunAddress:
        return RunAddress(self.workflow_id, self.run_id)

    def is_stored_as(self, other: "RunRow") -> bool:
        """Whether every column is the same text."""
        return self.columns == other.columns

    @property
    def columns(self) -> tuple[str | None, ...]:
        """The stored columns in order."""
        return (
            self.workflow_id,
            self.run_id,
            self.resource_id,
            self.snapshot,
            self.created_at,
            self.updated_at,
        )


def row_of(found: tuple[Row, ...]) -> RunRow | None:
    """The row of a statement that selects the columns and the lifecycle's text at one address."""
    if not found:
        return None
    workflow_id, run_id, resource_id, snapshot, created_at, updated_at, lifecycle_text = found[0]
    return RunRow(
        str(workflow_id),
        str(run_id),
        None if resource_id is None else str(resource_id),
        str(snapshot),
        str(created_at),
        str(updated_at),
        None if lifecycle_text is None else str(lifecycle_text),
    )
