"""A client of the Host API and of the management listener. It speaks HTTP and imports nothing else of ours."""

from emulator.client.connection import Connection
from emulator.client.errors import (
    ClientError,
    HostUnreachable,
    InvalidDiscovery,
    OperationFailed,
    OutcomeUnknown,
    RequestRefused,
    UnexpectedAnswer,
)
from emulator.client.host_api import HostApi, Patience
from emulator.client.management import Management
from emulator.client.ready import ReadyFile
from emulator.client.records import (
    DURABLE_WORKFLOW,
    MODULE_WORKER,
    STATIC_ASSET_BUNDLE,
    WORKER_BUNDLE,
    WORKER_DEPLOYMENT,
    WORKER_ENDPOINT,
    WORKER_VERSION,
    Operation,
    OperationStatus,
    Resource,
)

__all__ = [
    "DURABLE_WORKFLOW",
    "MODULE_WORKER",
    "STATIC_ASSET_BUNDLE",
    "WORKER_BUNDLE",
    "WORKER_DEPLOYMENT",
    "WORKER_ENDPOINT",
    "WORKER_VERSION",
    "ClientError",
    "Connection",
    "HostApi",
    "HostUnreachable",
    "InvalidDiscovery",
    "Management",
    "Operation",
    "OperationFailed",
    "OperationStatus",
    "OutcomeUnknown",
    "Patience",
    "ReadyFile",
    "RequestRefused",
    "Resource",
    "UnexpectedAnswer",
]
