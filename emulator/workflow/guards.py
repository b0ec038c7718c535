"""Conditions that statements of the engine carry themselves. SQL texts only; parameters are `:name`.

`GATE_OPEN` and `IS_OWNED` are of the row at `:workflow_id`, `:run_id`; `READY_WORKFLOWS` selects workflow ids.
"""

from collections.abc import Iterable

from emulator.runstore.schema import INTENT, OWNER, STATUS
from emulator.runstore.snapshot import PARKED, TERMINAL, RunStatus
from emulator.workflow.states import Event, leaving


def listed(statuses: Iterable[RunStatus]) -> str:
    """An SQL list of status texts."""
    return "(" + ", ".join(f"'{status}'" for status in statuses) + ")"


GATE_OPEN = "EXISTS (SELECT 1 FROM workflow_gates WHERE workflow_id = :workflow_id AND state = 'open')"
READY_WORKFLOWS = """
    SELECT g.workflow_id FROM workflow_gates g
    WHERE g.state = 'open'
        AND EXISTS (SELECT 1 FROM catalog_weights w WHERE w.worker_uid = g.worker_uid)
        AND NOT EXISTS (
            SELECT 1 FROM catalog_weights w LEFT JOIN catalog_versions v USING (version_uid)
            WHERE w.worker_uid = g.worker_uid AND (
                v.version_uid IS NULL OR v.has_lost_secrets
                OR w.version_uid IN (SELECT version_uid FROM catalog_withheld)
                OR NOT EXISTS (SELECT 1 FROM json_each(v.classes_json) c WHERE c.value = g.class_name)))
"""
IS_READY = f":workflow_id IN ({READY_WORKFLOWS})"
IS_WEIGHTED = """
    EXISTS (SELECT 1 FROM workflow_gates g JOIN catalog_weights w USING (worker_uid)
        WHERE g.workflow_id = :workflow_id AND w.version_uid = :version_uid)
"""
IS_PARKED = f"{STATUS} IN {listed(PARKED)}"
IS_QUEUED = f"{STATUS} IN {listed(leaving(Event.CLAIM))}"
IS_ASLEEP = f"{STATUS} IN {listed(leaving(Event.DUE))}"
IS_LIVE = f"{STATUS} NOT IN {listed(TERMINAL)}"
IS_RUNNING = f"({STATUS} = '{RunStatus.RUNNING}' AND {INTENT} IS NULL)"
HOLDS = f"({OWNER} = :owner AND {IS_RUNNING})"
ENDS_OTHERWISE = f"{INTENT} IN {listed(TERMINAL)}"
MAY_BE_ENDED = f"({STATUS} = '{RunStatus.RUNNING}' AND ({INTENT} IS NULL OR NOT ({ENDS_OTHERWISE})))"
ALL_STOPPED = """
    NOT EXISTS (SELECT 1 FROM workflow_contexts c
        WHERE c.workflow_id = runs.workflow_id AND c.run_id = runs.run_id AND c.stop_kind IS NULL)
"""
