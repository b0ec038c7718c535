"""What an operation on an instance can be refused with, by the exact names of the caller binding (DW-11 to DW-18)."""

from enum import StrEnum


class ErrorName(StrEnum):
    INVALID_PARAMS = "invalid_params"
    DOCUMENT_TOO_LARGE = "document_too_large"
    INSTANCE_EXISTS = "instance_exists"
    UNKNOWN_INSTANCE = "unknown_instance"
    INSTANCE_TERMINAL = "instance_terminal"
    EVENT_QUEUE_FULL = "event_queue_full"
    BACKEND_UNAVAILABLE = "backend_unavailable"
    TYPE_ERROR = "TypeError"


class Reason(StrEnum):
    """Why an instance ended as errored (DW-13)."""

    RUN_THREW = "run_threw"
    STEP_FAILED = "step_failed"
    STEP_LIMIT_EXCEEDED = "step_limit_exceeded"
    LIFETIME_EXCEEDED = "lifetime_exceeded"
    STEP_DEFINITION_MISMATCH = "step_definition_mismatch"


class InstanceRefused(Exception):
    """The operation was refused and changed nothing; `str()` may be shown to the caller."""

    def __init__(self, name: ErrorName, message: str) -> None:
        super().__init__(message)
        self.name = name
