"""A backend in memory for tests: every call idempotent, holdable at a gate, and able to fail on request."""

import asyncio
import json
from collections import defaultdict
from dataclasses import dataclass, field, replace

from host.model.digest import sha256_hex
from host.ports import (
    ArtifactRefused,
    ArtifactSource,
    Backend,
    CodeReport,
    EndpointReport,
    HeldArtifact,
    InstanceCounts,
    ModuleGraph,
    SecretsMissing,
    VersionRecord,
    Weight,
)

HELD = "https://held.takohost.invalid/sha256/"


@dataclass
class FakeBackend:
    """All ports in one object. A module's bytes are JSON that says which handlers and classes it exports."""

    bytes_of: dict[str, bytes] = field(default_factory=dict)
    held_by: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    workers: dict[str, str] = field(default_factory=dict)
    versions: dict[str, VersionRecord] = field(default_factory=dict)
    deployments: dict[str, tuple[str, tuple[Weight, ...]]] = field(default_factory=dict)
    workflows: dict[str, tuple[str, str]] = field(default_factory=dict)
    endpoints: dict[str, tuple[str, str]] = field(default_factory=dict)
    tls_ready: bool | None = True
    gateway_answers: bool = True
    executing: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    withheld: frozenset[str] = frozenset()
    failures: defaultdict[str, list[Exception]] = field(default_factory=lambda: defaultdict(list))
    gates: dict[str, asyncio.Event] = field(default_factory=dict)
    reached: defaultdict[str, asyncio.Event] = field(default_factory=lambda: defaultdict(asyncio.Event))
    calls: list[tuple[str, str]] = field(default_factory=list)

    def ports(self) -> Backend:
        return Backend(
            _Artifacts(self),
            _Code(self),
            _Workers(self),
            _Versions(self),
            _Deployments(self),
            _Flows(self),
            _Endpoints(self),
        )

    def store(self, data: bytes) -> str:
        """Put bytes where `hold` finds them; the digest."""
        digest = sha256_hex(data)
        self.bytes_of[digest] = data
        return digest

    def store_bundle(self, handlers: list[str], classes: list[str], note: str = "") -> dict[str, str]:
        """An artifact of one module that exports these; the `artifact` of a WorkerBundle's spec."""
        module = self.store(json.dumps({"handlers": handlers, "classes": classes, "note": note}).encode())
        entry = {
            "path": "index.js",
            "url": HELD + module,
            "sha256": module,
            "mediaType": "application/javascript+module",
        }
        manifest = self.store(json.dumps({"entrypoint": "index.js", "files": [entry]}).encode())
        return {"url": HELD + manifest, "sha256": manifest}

    def store_assets(self, contents: dict[str, bytes], media_type: str = "text/x-test") -> dict[str, str]:
        """An artifact of these files by path; the `artifact` of a StaticAssetBundle's spec."""
        files = [
            {"path": path, "url": HELD + digest, "sha256": digest, "mediaType": media_type}
            for path, digest in ((path, self.store(content)) for path, content in contents.items())
        ]
        manifest = self.store(json.dumps({"files": files}).encode())
        return {"url": HELD + manifest, "sha256": manifest}

    def hold(self, call: str) -> None:
        """Let the next calls of this name wait until `release`."""
        self.gates[call] = asyncio.Event()
        self.reached.pop(call, None)

    def release(self, call: str) -> None:
        self.gates.pop(call).set()

    def fail(self, call: str, *errors: Exception) -> None:
        """Let the next calls of this name raise these, one each."""
        self.failures[call] += errors

    async def enter(self, call: str, uid: str) -> None:
        self.calls.append((call, uid))
        self.reached[call].set()
        gate = self.gates.get(call)
        if gate is not None:
            await gate.wait()
        if self.failures[call]:
            raise self.failures[call].pop(0)


@dataclass
class _Artifacts:
    fake: FakeBackend

    async def hold(self, principal: str, holder_uid: str, source: ArtifactSource, max_bytes: int) -> HeldArtifact:
        await self.fake.enter("artifacts.hold", holder_uid)
        data = self.fake.bytes_of.get(source.sha256)
        if data is None or len(data) > max_bytes:
            raise ArtifactRefused("the bytes cannot be had")
        self.fake.held_by[holder_uid].add(source.sha256)
        return HeldArtifact(source.sha256, len(data))

    async def read(self, sha256: str) -> bytes:
        if sha256 not in self.fake.bytes_of:
            raise ArtifactRefused("the bytes are gone")
        return self.fake.bytes_of[sha256]

    async def lost_holders(self) -> frozenset[str]:
        held = self.fake.held_by.items()
        return frozenset(uid for uid, digests in held if digests - self.fake.bytes_of.keys())

    async def release(self, holder_uid: str) -> None:
        await self.fake.enter("artifacts.release", holder_uid)
        self.fake.held_by.pop(holder_uid, None)


@dataclass
class _Code:
    fake: FakeBackend

    async def verify(self, graph: ModuleGraph) -> CodeReport:
        await self.fake.enter("code.verify", graph.manifest_sha256)
        exports = json.loads(self.fake.bytes_of[graph.files[0].sha256])
        digest = sha256_hex(graph.manifest_sha256.encode())
        return CodeReport(digest, tuple(exports["handlers"]), tuple(exports["classes"]))


@dataclass
class _Workers:
    fake: FakeBackend

    async def register(self, worker_uid: str, name: str) -> None:
        await self.fake.enter("workers.register", worker_uid)
        self.fake.workers[worker_uid] = name

    async def retire(self, worker_uid: str) -> None:
        await self.fake.enter("workers.retire", worker_uid)
        self.fake.workers.pop(worker_uid, None)


@dataclass
class _Versions:
    fake: FakeBackend

    async def install(self, version: VersionRecord) -> None:
        await self.fake.enter("versions.install", version.version_uid)
        if version.secrets is None:
            held = self.fake.versions.get(version.version_uid)
            if held is None or held.secrets is None or version.version_uid in self.fake.lost:
                raise SecretsMissing("the runtime does not hold the secrets")
            version = replace(version, secrets=held.secrets)
        self.fake.versions[version.version_uid] = version

    async def lost_secrets(self) -> frozenset[str]:
        return frozenset(self.fake.lost)

    async def withhold(self, version_uids: frozenset[str]) -> None:
        self.fake.withheld = version_uids

    async def is_executing(self, version_uid: str) -> bool:
        await self.fake.enter("versions.is_executing", version_uid)
        return version_uid in self.fake.executing

    async def remove(self, version_uid: str) -> None:
        await self.fake.enter("versions.remove", version_uid)
        self.fake.versions.pop(version_uid, None)


@dataclass
class _Deployments:
    fake: FakeBackend

    async def activate(self, deployment_uid: str, worker_uid: str, weights: tuple[Weight, ...]) -> None:
        await self.fake.enter("deployments.activate", deployment_uid)
        self.fake.deployments[worker_uid] = (deployment_uid, weights)

    async def retire(self, deployment_uid: str, worker_uid: str) -> None:
        await self.fake.enter("deployments.retire", deployment_uid)
        self.fake.deployments.pop(worker_uid, None)


@dataclass
class _Flows:
    fake: FakeBackend

    async def open(self, workflow_uid: str, worker_uid: str, class_name: str) -> None:
        await self.fake.enter("workflows.open", workflow_uid)
        self.fake.workflows[workflow_uid] = (worker_uid, class_name)

    async def counts(self, workflow_uid: str) -> InstanceCounts:
        await self.fake.enter("workflows.counts", workflow_uid)
        return InstanceCounts()

    async def retire(self, workflow_uid: str) -> None:
        await self.fake.enter("workflows.retire", workflow_uid)
        self.fake.workflows.pop(workflow_uid, None)


@dataclass
class _Endpoints:
    """`endpoints` are uids of Worker and hostnames, by uid; what is served follows from `deployments`."""

    fake: FakeBackend

    def hostname(self, endpoint_uid: str, name: str) -> str:
        return f"{name.lower()}-{sha256_hex(endpoint_uid.encode())[:8]}.example.test"

    async def attach(self, endpoint_uid: str, worker_uid: str, hostname: str) -> None:
        await self.fake.enter("endpoints.attach", endpoint_uid)
        self.fake.endpoints[endpoint_uid] = (worker_uid, hostname)

    async def probe(self, worker_uid: str, hostname: str) -> EndpointReport:
        self.fake.calls.append(("endpoints.probe", hostname))
        if not self.fake.gateway_answers:
            return EndpointReport()
        is_routed = (worker_uid, hostname) in self.fake.endpoints.values()
        return EndpointReport(self.fake.tls_ready, is_routed, is_routed and worker_uid in self.fake.deployments)

    async def detach(self, endpoint_uid: str) -> None:
        await self.fake.enter("endpoints.detach", endpoint_uid)
        self.fake.endpoints.pop(endpoint_uid, None)
