"""The management listener: artifacts, clock, faults and inspection for tests and tools, outside every contract."""

from emulator.management.app import ManagementParts, create_app
from emulator.management.clock import ClockControl
from emulator.management.guard import new_token
from emulator.management.parts import Inspection, Processes, ProcessFigures, Workload

__all__ = [
    "ClockControl",
    "Inspection",
    "ManagementParts",
    "ProcessFigures",
    "Processes",
    "Workload",
    "create_app",
    "new_token",
]
