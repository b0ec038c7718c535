"""The scopes that a task carries: the run whose leg it is, and the one write that an admission allows.

Both live in context variables, so that concurrent tasks each see their own (RS-50). Writes nothing.
"""

import asyncio
from contextvars import ContextVar
from dataclasses import dataclass, field

from emulator.runstore.address import RunAddress
from emulator.runstore.errors import AdmissionBrokenError
from emulator.runstore.inputs import InitialAdmission
from emulator.runstore.rows import RunRow


@dataclass(slots=True)
class StoredRunScope:
    """The caller's own object, looked at anew at every write: `row_stored` says that this leg's row is stored."""

    workflow_id: str
    run_id: str
    row_stored: bool = False

    def guards(self, address: RunAddress) -> bool:
        """Whether a write at the address must find a row."""
        return self.row_stored and self.is_of(address)

    def is_of(self, address: RunAddress) -> bool:
        return (self.workflow_id, self.run_id) == (address.workflow_id, address.run_id)


@dataclass(slots=True)
class AdmissionScope:
    """From the call of `create_run` until it has returned. `failure` is the first rule that was broken."""

    admission: InitialAdmission
    is_open: bool = True
    write: "asyncio.Future[RunRow] | None" = None
    failure: AdmissionBrokenError | None = field(default=None)

    def enter_write(self, address: RunAddress) -> None:
        """Claim the only write. Raises `AdmissionBrokenError`, and so does the admission then."""
        if not self.is_open:
            raise self.broken("a write came after the admission had closed")
        if address != self.admission.address:
            raise self.broken("the admission is for another run")
        if self.write is not None:
            raise self.broken("an admission makes one write")

    def broken(self, why: str) -> AdmissionBrokenError:
        """Remember the first rule broken, and return the error to raise."""
        error = AdmissionBrokenError(why)
        self.failure = self.failure or error
        return error


current_leg: ContextVar[StoredRunScope | None] = ContextVar("current_leg", default=None)
current_admission: ContextVar[AdmissionScope | None] = ContextVar("current_admission", default=None)
