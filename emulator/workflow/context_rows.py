"""Statements on the contexts of an instance: which process ran which Version, and how its stop is known (DW-39).

What is recorded here are facts about processes, so these writes name the context and not the run's owner.
"""

from emulator.contexts import StopEvidence
from emulator.d1 import Statement, named
from emulator.runstore.address import RunAddress
from emulator.runstore.schema import AT_ADDRESS, IS_OWNED
from emulator.runstore.statements import at

MOST_DEATHS_AT_ONE_POINT = 3
_POINT = f"""
    (SELECT COUNT(*) FILTER (WHERE s.state <> 'pending') || '/' || COALESCE(SUM(s.attempt), 0)
    FROM workflow_steps s WHERE s.{AT_ADDRESS.replace(" AND ", " AND s.")})
"""
DIED_TOO_OFTEN = f"""
    (SELECT COUNT(*) FROM workflow_contexts c
    WHERE c.{AT_ADDRESS.replace(" AND ", " AND c.")} AND c.lost_at_point = {_POINT}) >= {MOST_DEATHS_AT_ONE_POINT}
"""


def insert_claimed(address: RunAddress, owner: str, context_id: str, version_uid: str, now_ms: int) -> Statement:
    """A context is about to start; carries the fence of the claim it belongs to."""
    return named(
        f"""
        INSERT INTO workflow_contexts (context_id, workflow_id, run_id, ord, version_uid, claimed_at_ms)
        SELECT :context_id, :workflow_id, :run_id,
            (SELECT COALESCE(MAX(ord), 0) + 1 FROM workflow_contexts WHERE {AT_ADDRESS}), :version_uid, :now
        WHERE {IS_OWNED}
        """,
        {**at(address), "owner": owner, "context_id": context_id, "version_uid": version_uid, "now": now_ms},
    )


def record_process(context_id: str, pid: int, process_started: str) -> Statement:
    """The process that holds the context."""
    return named(
        """
        UPDATE workflow_contexts SET pid = :pid, process_started = :process_started
        WHERE context_id = :context_id AND pid IS NULL
        """,
        {"context_id": context_id, "pid": pid, "process_started": process_started},
    )


def record_stop(context_id: str, evidence: StopEvidence | None, stopped_at: str, ending: str | None) -> Statement:
    """The code acts no more. No evidence: no process was ever given the context."""
    return named(
        """
        UPDATE workflow_contexts SET stop_kind = :kind, exit_status = :exit_status, stopped_at = :at,
            pid = COALESCE(pid, :pid), process_started = COALESCE(process_started, :process_started),
            ending = COALESCE(ending, :ending)
        WHERE context_id = :context_id AND stop_kind IS NULL
        """,
        {
            "context_id": context_id,
            "kind": evidence.kind if evidence else "unstarted",
            "exit_status": evidence.exit_status if evidence else None,
            "at": evidence.at if evidence else stopped_at,
            "pid": evidence.pid if evidence else None,
            "process_started": evidence.process_started if evidence else None,
            "ending": ending,
        },
    )


def record_death(address: RunAddress, context_id: str) -> Statement:
    """The context was lost at this point of the history; counted towards `DIED_TOO_OFTEN`."""
    return named(
        f"UPDATE workflow_contexts SET lost_at_point = {_POINT} WHERE context_id = :context_id",
        {**at(address), "context_id": context_id},
    )


def select_unproven() -> Statement:
    """Contexts not known to have stopped: id, address, pid, process start."""
    return Statement(
        """
        SELECT context_id, workflow_id, run_id, pid, process_started FROM workflow_contexts
        WHERE stop_kind IS NULL ORDER BY claimed_at_ms, context_id
        """
    )


def select_unproven_of(version_uid: str) -> Statement:
    """Contexts of a Version not known to have stopped."""
    return Statement(
        "SELECT context_id FROM workflow_contexts WHERE stop_kind IS NULL AND version_uid = ?", (version_uid,)
    )
