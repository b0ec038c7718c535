"""The binding of a Worker to a DurableWorkflow."""

from emulator.bindings.workflow.handler import WorkflowCalls

__all__ = ["WorkflowCalls"]
