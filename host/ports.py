"""What a Form needs from a backend, as small protocols of plain values. Knows no store, no HTTP and no runtime.

Every call is idempotent: the executor repeats it under the same Operation after a crash, so an implementation
converges on the stated result instead of counting calls. A call that cannot tell whether it took effect raises
`BackendUnavailable`; the Operation then reconciles (HA-46).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from host.model.json import JsonValue


class BackendError(Exception):
    """A backend's own failure; `str()` is safe to show to the caller (HA-13, HA-15)."""


class BackendUnavailable(BackendError):
    """The effect is not known: the Operation reconciles and the same call is repeated later (HA-46)."""


class ArtifactRefused(BackendError):
    """The bytes cannot be had or are not what the digest says; nothing was substituted (WB-07)."""


class CodeRejected(BackendError):
    """The module graph, a module or an export is not what the contract asks for (MW-10 to MW-12, DW-20)."""


class SecretsMissing(BackendError):
    """The runtime does not hold the secrets of a Version, and none were given: nothing was changed (WV-12)."""


@dataclass(frozen=True, slots=True)
class ArtifactSource:
    """Where bytes are named and what they must hash to: `sha256` is 64 lower-case hex digits (WB-01)."""

    url: str
    sha256: str


@dataclass(frozen=True, slots=True)
class HeldArtifact:
    """Verified bytes in the content-addressed store."""

    sha256: str
    size_bytes: int


class ArtifactPort(Protocol):
    """Custody of content-addressed bytes (WB-05, WB-06, WB-08)."""

    async def hold(self, principal: str, holder_uid: str, source: ArtifactSource, max_bytes: int) -> HeldArtifact:
        """Hold the bytes for `holder_uid`, durably and verified. Raises `ArtifactRefused`."""

    async def read(self, sha256: str) -> bytes:
        """The held bytes. Raises `ArtifactRefused` when they are gone (WB-11)."""

    async def lost_holders(self) -> frozenset[str]:
        """Uids of the holders some of whose bytes are gone or damaged, as far as a cheap look tells (WB-11)."""

    async def release(self, holder_uid: str) -> None:
        """Give up what `holder_uid` holds; bytes that nobody else holds go (WB-08)."""


@dataclass(frozen=True, slots=True)
class HeldFile:
    """One file of a bundle: manifest path, digest of the held bytes, declared media type (WB-02 to WB-04, SA-02)."""

    path: str
    sha256: str
    media_type: str


@dataclass(frozen=True, slots=True)
class ModuleGraph:
    """A verified manifest: `manifest_sha256` identifies it, `entrypoint` is the path of the main module."""

    manifest_sha256: str
    entrypoint: str
    files: tuple[HeldFile, ...]


@dataclass(frozen=True, slots=True)
class CodeReport:
    """What compiling and inspecting a graph proved, without constructing or calling app code.

    `handlers`: callable own properties of the default export among fetch, scheduled, queue (MW-10).
    `classes`: named exports that are constructible and have a callable `run` (DW-20).
    """

    code_digest: str
    handlers: tuple[str, ...]
    classes: tuple[str, ...]


class CodePort(Protocol):
    """Compiles and inspects module graphs in a killable process (MW-10 to MW-13)."""

    async def verify(self, graph: ModuleGraph) -> CodeReport:
        """Raises `CodeRejected` with a reason for the author, `BackendUnavailable` without a runtime."""


class WorkerPort(Protocol):
    """The identity of a Worker in the runtime (MW-01, MW-03)."""

    async def register(self, worker_uid: str, name: str) -> None: ...

    async def retire(self, worker_uid: str) -> None: ...


@dataclass(frozen=True, slots=True)
class BindingRecord:
    """One `env` entry that stands for a capability: `kind` is "workflow" or "service" so far (WV-11)."""

    name: str
    kind: str
    target_uid: str


@dataclass(frozen=True, slots=True)
class AssetsRecord:
    """What a Version serves besides its code: the files of a held manifest, in which turn, and whether a valid key
    without a file means the root's `index.html` (WV-13 to WV-15)."""

    manifest_sha256: str
    runs_worker_first: bool
    falls_back: bool


@dataclass(frozen=True, slots=True)
class VersionRecord:
    """All that running a Version needs (WV-01): code, vars (JSON values), bindings, proven exports, secrets, assets.

    Without a bundle there is no code and `code_digest` is `None` (WV-02). `secrets` are the values of its sensitive
    names, `None` when they are not at hand: whoever holds a copy keeps it. `is_withheld`: nothing new is started on it.
    """

    version_uid: str
    worker_uid: str
    code_digest: str | None
    vars: Mapping[str, JsonValue]
    bindings: tuple[BindingRecord, ...]
    handlers: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    secrets: Mapping[str, str] | None = field(default_factory=dict, repr=False)
    assets: AssetsRecord | None = None
    is_withheld: bool = False


class VersionPort(Protocol):
    """The host's running copy of a Version (WV-09)."""

    async def install(self, version: VersionRecord) -> None:
        """Hold the Version whole; `secrets` None keeps those held. Raises `SecretsMissing` when there are none."""

    async def lost_secrets(self) -> frozenset[str]:
        """Uids of the Versions held whose secrets do not open any more; those without secrets have none to lose."""

    async def withhold(self, version_uids: frozenset[str]) -> None:
        """Start nothing new on these Versions, whose held bytes are lost, and on all others again (WD-08)."""

    async def is_executing(self, version_uid: str) -> bool:
        """Whether any invocation or context still runs on it."""

    async def remove(self, version_uid: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Weight:
    """A Version's share of new work, 1..10000 of 10000 (WD-01)."""

    version_uid: str
    weight: int


class DeploymentPort(Protocol):
    """Which Versions get new work (WD-03, WD-04, WD-07)."""

    async def activate(self, deployment_uid: str, worker_uid: str, weights: tuple[Weight, ...]) -> None:
        """Switch at once and whole; returns when every new request is chosen by these weights."""

    async def retire(self, deployment_uid: str, worker_uid: str) -> None:
        """Close selection and stop what runs, with evidence. Raises `BackendUnavailable` while unproven."""


@dataclass(frozen=True, slots=True)
class InstanceCounts:
    """Instances by status (DW-04)."""

    queued: int = 0
    running: int = 0
    sleeping: int = 0
    waiting: int = 0
    complete: int = 0
    errored: int = 0
    terminated: int = 0


class WorkflowPort(Protocol):
    """The instance space of one Workflow (DW-06, DW-08)."""

    async def open(self, workflow_uid: str, worker_uid: str, class_name: str) -> None: ...

    async def counts(self, workflow_uid: str) -> InstanceCounts: ...

    async def retire(self, workflow_uid: str) -> None:
        """Close, fence, prove stops, purge. Raises `BackendUnavailable` while a stop is unproven (DW-06)."""


@dataclass(frozen=True, slots=True)
class EndpointReport:
    """What was found out about a hostname just now; `None` is unknown, `False` is proven (WE-06).

    `is_tls_ready`: TLS under that name holds. `is_routed`: the name leads to its Worker. `is_served`: new requests
    that come that way have Versions to go to.
    """

    is_tls_ready: bool | None = None
    is_routed: bool | None = None
    is_served: bool | None = None


class EndpointPort(Protocol):
    """Names of this host that lead to Workers over TLS (WE-03 to WE-14)."""

    def hostname(self, endpoint_uid: str, name: str) -> str:
        """The address of a new endpoint: unique to the uid, in the grammar of WE-04. Waits for nothing."""

    async def attach(self, endpoint_uid: str, worker_uid: str, hostname: str) -> None:
        """Route the name to the Worker, durably, in place of what the endpoint had; returns once it is in force."""

    async def probe(self, worker_uid: str, hostname: str) -> EndpointReport:
        """Look, without calling the application (WE-09). Never raises: what cannot be found out is unknown."""

    async def detach(self, endpoint_uid: str) -> None:
        """Remove the endpoint's route and nothing else; returns once nothing is routed by it (WE-14)."""


@dataclass(frozen=True, slots=True)
class Backend:
    """Every port, wired once by the composition root."""

    artifacts: ArtifactPort
    code: CodePort
    workers: WorkerPort
    versions: VersionPort
    deployments: DeploymentPort
    workflows: WorkflowPort
    endpoints: EndpointPort
