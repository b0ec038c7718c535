"""Statements on the queued events of an instance: acceptance in order, hand-over to a waiting step, limits (DW-16)."""

from dataclasses import dataclass

import rfc8785

from emulator.d1 import Statement, named
from emulator.runstore.address import RunAddress
from emulator.runstore.schema import AT_ADDRESS, STATUS
from emulator.runstore.snapshot import TERMINAL
from emulator.runstore.statements import at
from emulator.workflow.guards import GATE_OPEN, IS_LIVE, listed
from host.sqlite import Value

MOST_QUEUED_EVENTS = 1024
MOST_QUEUED_BYTES = 1_048_576

_ACCEPTS = f"EXISTS (SELECT 1 FROM runs WHERE {AT_ADDRESS} AND {IS_LIVE}) AND {GATE_OPEN}"
_NEXT_ORD = f"""
    (MAX(COALESCE((SELECT MAX(accepted_ord) FROM workflow_events WHERE {AT_ADDRESS}), 0),
         COALESCE((SELECT MAX(event_ord) FROM workflow_steps WHERE {AT_ADDRESS}), 0)) + 1)
"""


@dataclass(frozen=True, slots=True)
class EventMessage:
    """What a sender gives: `payload` is canonical document text, None for `undefined`."""

    type: str
    payload: str | None

    @property
    def size_bytes(self) -> int:
        """UTF-8 bytes of the canonical text of `{type, payload?}`."""
        kind = len(rfc8785.dumps(self.type))
        return kind + (
            len('{"type":}') if self.payload is None else len('{"payload":,"type":}') + len(self.payload.encode())
        )


def accept(address: RunAddress, event: EventMessage, now_ms: int) -> list[Statement]:
    """Two statements; one of them applies when the event is accepted.

    The first hands it to a pending wait of its type, the deadline instant included: handing over is not queueing and
    knows no limit. The second queues it. `changes()` of the first tells the second that it is served.
    """
    values: dict[str, Value] = {
        **at(address),
        "type": event.type,
        "payload": event.payload,
        "size": event.size_bytes,
        "now": now_ms,
    }
    hand_over = f"""
        UPDATE workflow_steps SET state = 'succeeded', settled_at_ms = :now, result = :payload, event_ord = {_NEXT_ORD}
        WHERE {AT_ADDRESS} AND kind = 'wait' AND state = 'pending' AND settings = :type AND due_at_ms >= :now
            AND {_ACCEPTS}
    """
    queue = f"""
        INSERT INTO workflow_events (workflow_id, run_id, accepted_ord, type, payload, size_bytes, accepted_at_ms)
        SELECT :workflow_id, :run_id, {_NEXT_ORD}, :type, :payload, :size, :now
        WHERE changes() = 0 AND {_ACCEPTS}
            AND (SELECT COUNT(*) < {MOST_QUEUED_EVENTS} AND COALESCE(SUM(size_bytes), 0) + :size <= {MOST_QUEUED_BYTES}
                FROM workflow_events WHERE {AT_ADDRESS})
    """
    return [named(hand_over, values), named(queue, values)]


def drop_unmatched(address: RunAddress) -> Statement:
    """A terminal transition purges what nobody waited for."""
    return named(
        f"""
        DELETE FROM workflow_events WHERE {AT_ADDRESS}
            AND EXISTS (SELECT 1 FROM runs WHERE {AT_ADDRESS} AND {STATUS} IN {listed(TERMINAL)})
        """,
        at(address),
    )
