"""The address of a run. Knows nothing of what the run is."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunAddress:
    """`workflow_id` is the uid of the Workflow Resource, `run_id` the instance id (any 1..256 scalar values)."""

    workflow_id: str
    run_id: str
