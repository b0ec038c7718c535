"""Statements that move a run from state to state, each a compare-and-set with its own condition (RS-70).

Every one makes a new owner, so that what an earlier owner still sends commits nothing (DW-39, DW-42).
"""

from emulator.d1 import Statement
from emulator.runstore.address import RunAddress
from emulator.runstore.schema import CREATED_MS, INTENT, REVISION, STATUS
from emulator.runstore.snapshot import RunFailure, RunStatus, TransitionIntent, encode_failure, encode_intent
from emulator.runstore.statements import change, change_at
from emulator.workflow import guards
from emulator.workflow.due import LIFETIME_MS
from emulator.workflow.errors import Reason
from host.model.time import timestamp
from host.sqlite import Value

LIFETIME_EXCEEDED = RunFailure(Reason.LIFETIME_EXCEEDED.value, "the instance did not end within 31536000 seconds")
INTENT_PATH = "$.lifecycle.transitionIntent"
_PENDING_STEP = """
    EXISTS (SELECT 1 FROM workflow_steps s WHERE s.workflow_id = runs.workflow_id AND s.run_id = runs.run_id
        AND s.name = :name AND s.state = 'pending')
"""


def queue_due(of_due: str, now_ms: int, most: int) -> Statement:
    """Queue the sleeping and waiting runs that `of_due`, the rest of a SELECT over the due index, gives (DW-12).

    Nobody owns them, so their owner stays. The plus keeps SQLite from going by status, through all sleepers there are.
    """
    condition = f"(workflow_id, run_id) IN (SELECT d.workflow_id, d.run_id {of_due}) AND +{guards.IS_ASLEEP}"
    values: dict[str, Value] = {"now": now_ms, "most": most, "at": timestamp(now_ms)}
    return change({"$.status": f"'{RunStatus.PENDING}'"}, (), condition, values)


def claim(address: RunAddress, revision: int, owner: str, version_uid: str, now_ms: int) -> Statement:
    """Take a queued instance for a context of a Version that is in the weights now (DW-23)."""
    condition = f"""
        {REVISION} = :revision AND {guards.IS_QUEUED} AND {guards.IS_READY} AND {guards.IS_WEIGHTED}
        AND {CREATED_MS} + {LIFETIME_MS} > :now
    """
    members = {
        "$.status": f"'{RunStatus.RUNNING}'",
        "$.lifecycle.owner": ":owner",
        "$.lifecycle.pinned": ":version_uid",
    }
    values: dict[str, Value] = {
        "revision": revision,
        "owner": owner,
        "version_uid": version_uid,
        "now": now_ms,
        "at": timestamp(now_ms),
    }
    return change_at(address, members, (), condition, values)


def _outcome(members: dict[str, str], values: dict[str, Value], output: str | None, failure: RunFailure | None) -> None:
    if output is not None:
        members["$.output"] = ":output"
        values["output"] = output
    if failure is not None:
        members["$.error"] = "json(:failure)"
        values["failure"] = encode_failure(failure)


def _intent(to: RunStatus, next_owner: str, now_ms: int) -> tuple[dict[str, str], dict[str, Value]]:
    at = timestamp(now_ms)
    members = {"$.lifecycle.owner": ":next_owner", INTENT_PATH: "json(:intent)"}
    return members, {"next_owner": next_owner, "intent": encode_intent(TransitionIntent(to, at)), "at": at}


def intend(
    address: RunAddress,
    owner: str,
    next_owner: str,
    to: RunStatus,
    now_ms: int,
    output: str | None = None,
    failure: RunFailure | None = None,
    also: str = "TRUE",
) -> Statement:
    """The owner gives the run up: record where it goes once its code has stopped. `also` restricts further."""
    members, values = _intent(to, next_owner, now_ms)
    _outcome(members, values, output, failure)
    return change_at(address, members, (), f"{guards.HOLDS} AND {also}", {**values, "owner": owner})


def intend_while_pending(
    address: RunAddress, owner: str, next_owner: str, to: RunStatus, name: str, now_ms: int
) -> Statement:
    """The same, iff the batch has left the step `name` pending."""
    members, values = _intent(to, next_owner, now_ms)
    condition = f"{guards.HOLDS} AND {_PENDING_STEP}"
    return change_at(address, members, (), condition, {**values, "owner": owner, "name": name})


def end_running(
    address: RunAddress, next_owner: str, to: RunStatus, now_ms: int, failure: RunFailure | None = None
) -> Statement:
    """Somebody else ends a running instance: overrides an intent to park, never one to end."""
    members, values = _intent(to, next_owner, now_ms)
    _outcome(members, values, None, failure)
    return change_at(address, members, (), guards.MAY_BE_ENDED, values)


def end_parked(
    address: RunAddress, next_owner: str, to: RunStatus, now_ms: int, failure: RunFailure | None = None
) -> Statement:
    """Somebody ends an instance of which no context exists: at once (DW-17)."""
    members = {"$.status": ":to", "$.lifecycle.owner": ":next_owner"}
    values: dict[str, Value] = {"to": to.value, "next_owner": next_owner, "at": timestamp(now_ms)}
    _outcome(members, values, None, failure)
    return change_at(address, members, (), guards.IS_PARKED, values)


def publish(address: RunAddress, next_owner: str, now_ms: int) -> Statement:
    """Write the status that the intent names, iff every context of the run is known to have stopped (DW-39)."""
    members = {"$.status": INTENT, "$.lifecycle.owner": ":next_owner"}
    return change_at(
        address,
        members,
        (INTENT_PATH, "$.lifecycle.pinned"),
        f"{STATUS} = '{RunStatus.RUNNING}' AND {INTENT} IS NOT NULL AND {guards.ALL_STOPPED}",
        {"next_owner": next_owner, "at": timestamp(now_ms)},
    )


def fence_lost(next_owner: str, now_ms: int) -> Statement:
    """At start-up every owner is dead: fence all of them; those without an intent go back to the queue (RS-21)."""
    members, values = _intent(RunStatus.PENDING, next_owner, now_ms)
    members[INTENT_PATH] = f"json(COALESCE(snapshot -> '{INTENT_PATH}', :intent))"
    return change(members, (), f"{STATUS} = '{RunStatus.RUNNING}'", values)


def fence_workflow(workflow_id: str, next_owner: str, now_ms: int) -> Statement:
    """Fence every running instance of a Workflow that is being deleted (DW-06)."""
    members, values = _intent(RunStatus.TERMINATED, next_owner, now_ms)
    condition = f"workflow_id = :workflow_id AND {guards.MAY_BE_ENDED}"
    return change(members, (), condition, {**values, "workflow_id": workflow_id})


def select_fenced() -> Statement:
    """Addresses of the runs that carry an intent."""
    return Statement(
        f"SELECT workflow_id, run_id FROM runs WHERE {STATUS} = '{RunStatus.RUNNING}' AND {INTENT} IS NOT NULL"
    )
