"""What the run store refuses, as one tree (RS-71). Each class carries its HTTP status and code; renders nothing."""


class RunStoreError(Exception):
    """Any refusal of the run store; `str()` is text for people."""

    status = 500
    code = "RUN_STORE_ERROR"


class MalformedRunInputError(RunStoreError, ValueError):
    """An address, row, expectation, patch or snapshot that no caller may pass; nothing was written."""

    status = 400
    code = "RUN_INPUT_MALFORMED"


class RunSettledConflictError(RunStoreError):
    """Another writer settled the run, or its row is gone though this leg stored it; nothing was written."""

    status = 409
    code = "RUN_SETTLED_CONFLICT"


class RunStateNotStorableError(RunStoreError):
    """SQLite cannot parse the snapshot, such as one nested too deep; nothing was written."""

    status = 422
    code = "RUN_STATE_NOT_STORABLE"


class RunLifecycleBlockedError(RunStoreError):
    """A disputed economic operation stands in the way; nothing was written."""

    status = 409
    code = "DISPUTED_SETTLEMENT"


class RunOutcomeUnreadableError(RunStoreError):
    """Nobody can tell whether a write took place; the cause is why. It is never guessed (RS-12)."""

    status = 503
    code = "RUN_OUTCOME_UNREADABLE"


class RunContendedError(RunStoreError):
    """A row kept changing under a compare-and-set until the bounded retries were used up; nothing was written."""

    status = 503
    code = "RUN_CONTENDED"


class RunNotAdmittedError(RunStoreError):
    """A row stands at the address, or the reservation is held by another attempt; nothing was written (RS-11)."""

    status = 409
    code = "RUN_NOT_ADMITTED"


class AdmissionBrokenError(RunStoreError):
    """The caller broke a rule of the admission scope: the admission fails (RS-11)."""

    status = 500
    code = "RUN_ADMISSION_BROKEN"
