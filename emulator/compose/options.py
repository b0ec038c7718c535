"""What a host is told at its start, as values. Knows no command line."""

from dataclasses import dataclass, field
from pathlib import Path

from emulator.artifacts.places import AllowedOrigin
from emulator.compose.listeners import ListenerPorts
from emulator.runtime.kernels import OutboundMode


@dataclass(frozen=True, slots=True)
class OutboundOptions:
    """Where app code's `fetch` may go: the mode, and `host[:port]` that are reachable in any."""

    mode: OutboundMode = OutboundMode.PUBLIC
    allow: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunnerOptions:
    """`runners` None is 8 per processor; `is_strict` kills a runner's process after every context.

    `context_wall_limit_s` without a step, a call or a result end a context's code, None for never.
    """

    runners: int | None = None
    max_contexts: int = 1000
    context_memory_mib: int = 256
    context_cpu_limit_s: float = 10.0
    context_wall_limit_s: float | None = None
    is_strict: bool = False


@dataclass(frozen=True, slots=True)
class HostOptions:
    """`default_worker` is the name that `localhost` reaches when there are several Workers.

    `artifact_origins` may be fetched from though they are private (WB-06).
    `gateway_processes` None is one per processor, 4 at most.
    `token_file` None is no authentication: everybody who reaches the loopback address is `local` (HA-21).
    """

    state_dir: Path = Path(".takohost")
    ports: ListenerPorts = field(default_factory=ListenerPorts)
    ready_file: Path | None = None
    default_worker: str | None = None
    token_file: Path | None = None
    artifact_origins: tuple[AllowedOrigin, ...] = ()
    gateway_processes: int | None = None
    outbound: OutboundOptions = field(default_factory=OutboundOptions)
    runners: RunnerOptions = field(default_factory=RunnerOptions)
