"""Durable Workflow instances: histories, events, timers, retries and owners over D1 batches (DW).

Knows no workerd process and no JavaScript: contexts run behind `emulator.contexts.Runners`.
"""

from emulator.workflow.engine import MAX_CONTEXTS, Engine
from emulator.workflow.errors import ErrorName, InstanceRefused, Reason
from emulator.workflow.gates import Gates
from emulator.workflow.instances import Instances, InstanceStatus
from emulator.workflow.schema import APPLICATION_ID, MIGRATIONS
from emulator.workflow.views import InstanceHistory, InstanceView

__all__ = [
    "APPLICATION_ID",
    "MAX_CONTEXTS",
    "MIGRATIONS",
    "Engine",
    "ErrorName",
    "Gates",
    "InstanceHistory",
    "InstanceRefused",
    "InstanceStatus",
    "InstanceView",
    "Instances",
    "Reason",
]
