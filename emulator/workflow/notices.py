"""What people are told when the host loses a context or ends an instance by itself, in words that are never app code's.

Knows neither logs nor how a context is stopped.
"""

from emulator.contexts import Loss, Notice
from emulator.d1 import Result
from emulator.workflow.due import DueInstance
from emulator.workflow.errors import Reason
from emulator.workflow.executions import Execution

_REPLAYED = "; it goes on from its history in a new context"


def lost(loss: Loss, death: Result | None, replay: Result) -> str:
    """A context was lost. `death` is the write that ends the instance at its third death at one point of its history,
    None when this death is not counted; `replay` the one that queues it again. With neither somebody else ended it."""
    if death is not None and death.is_applied:
        return f"{loss.words}; {ended(Reason.RUN_THREW, 'the third time at the same point of its history')}"
    return loss.words + (_REPLAYED if replay.is_applied else "")


def ended(reason: Reason, words: str) -> str:
    """The host ended an instance whose code had not failed by itself (DW-31, DW-33)."""
    return f"the instance ends as {reason}: {words}"


def expired(instance: DueInstance, execution: Execution | None) -> Notice:
    """The lifetime of an instance was over, whatever executed (DW-33)."""
    return Notice(
        instance.worker_uid,
        execution.version_uid if execution else None,
        instance.address.run_id,
        execution.context_id if execution else None,
        ended(Reason.LIFETIME_EXCEEDED, "it did not end within 31536000 seconds"),
    )
