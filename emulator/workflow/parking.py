"""From an intent to the status it names: stop, evidence, status, in this order (DW-39). Knows no frame.

Every call can be repeated: a host that died anywhere between is completed by recovery with the same batch.
"""

from emulator.contexts import StopEvidence
from emulator.d1 import Statement
from emulator.runstore.address import RunAddress
from emulator.workflow import context_rows, due, event_rows, transitions
from emulator.workflow.surroundings import PUBLISHED, STOPPED, Surroundings
from host.model.time import timestamp


def publication(surroundings: Surroundings, address: RunAddress) -> list[Statement]:
    """Write the intended status iff every context has stopped; a terminal one drops the unmatched events."""
    now_ms = surroundings.clock.now_ms()
    return [
        transitions.publish(address, surroundings.ids(), now_ms),
        event_rows.drop_unmatched(address),
        *due.refresh(address),
    ]


async def finish(
    surroundings: Surroundings, address: RunAddress, context_id: str, evidence: StopEvidence | None, ending: str | None
) -> None:
    """Record how the stop is known and publish what was intended; no evidence means that no code was started."""
    stopped_at = timestamp(surroundings.clock.now_ms())
    await surroundings.insist(
        [
            context_rows.record_stop(context_id, evidence, stopped_at, ending),
            *publication(surroundings, address),
        ],
        before=STOPPED,
    )
    surroundings.faults.reach(PUBLISHED)
