"""A gateway on a free port, with Workers as tests write them and binding calls answered by a function."""

import hashlib
import json
import socket
from collections.abc import Callable, Mapping
from pathlib import Path

import httpx

from emulator.contexts import BindingCall
from emulator.runtime.compiled_code import CodeWriter, CompiledModule, ModuleKind
from emulator.runtime.gateway import Gateway
from emulator.runtime.gateway_watchdog import CPU_LIMIT_S
from emulator.runtime.kernels import KernelSettings, OutboundMode, OutboundPolicy, SecureListener
from emulator.runtime.log_tags import LogTags
from emulator.runtime.process import Launcher
from emulator.runtime.routes import GatewayRoute, RoutedVersion, RouteTable
from host.model.json import JsonValue
from host.model.time import ControlledClock, RealTime
from host.ports import AssetsRecord, BindingRecord, VersionRecord
from tests.emulator.runtime.bundles import Bundler

DEADLINE_S = 30.0

Reply = Callable[[BindingCall], list[JsonValue]]


class ScriptedCalls:
    """Keeps the calls of bindings and answers them by `reply`."""

    def __init__(self) -> None:
        self.calls: list[BindingCall] = []
        self.reply: Reply = lambda call: ["ok", "i-1"]

    async def answer(self, call: BindingCall) -> str:
        self.calls.append(call)
        return json.dumps(self.reply(call))


def handler(body: str, before: str = "") -> str:
    """A module whose `fetch(request, env, ctx)` has this body."""
    return before + "export default { async fetch(request, env, ctx) {" + body + "} };"


class Ingress:
    """One gateway and its Workers; a Worker's uid is its name."""

    def __init__(
        self,
        launcher: Launcher,
        bundler: Bundler,
        cpu_limit_s: float = CPU_LIMIT_S,
        tags: LogTags | None = None,
        secure: SecureListener | None = None,
        real_time: RealTime | None = None,
        most: int = 1,
    ) -> None:
        self.secure = secure
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self.listener.getsockname()[1]
        self.calls = ScriptedCalls()
        self.clock = ControlledClock()
        self.services, self.services_path = launcher.listen()
        self._bundler = bundler
        self.files = bundler.code_dir.parent / "files"
        self.files.mkdir(parents=True)
        outbound = OutboundPolicy(OutboundMode.LOCAL, own_ports=(self.port,))
        self.gateway = Gateway(
            launcher,
            KernelSettings(bundler.code_dir, outbound, self.services_path, tags or LogTags(), self.files),
            self.listener,
            self.calls,
            self.clock,
            real_time or RealTime(),
            cpu_limit_s,
            self.services,
            secure,
            most,
        )
        self.client = httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{self.port}", timeout=DEADLINE_S, limits=httpx.Limits(max_connections=8)
        )

    async def version(
        self,
        uid: str,
        files: str | Mapping[str, str | bytes],
        variables: Mapping[str, JsonValue] | None = None,
        bindings: tuple[BindingRecord, ...] = (),
    ) -> VersionRecord:
        """A Version. A single module with a fetch handler and without `import()` is laid down as it is, which saves two
        processes; a bundle is compiled, and its handlers are the exported ones."""
        if isinstance(files, str):
            return VersionRecord(uid, "app", self._lay_down(files), variables or {}, bindings, ("fetch",))
        report = await self._bundler.verify(files)
        return VersionRecord(uid, "app", report.code_digest, variables or {}, bindings, report.handlers)

    def _lay_down(self, source: str) -> str:
        digest = hashlib.sha256(source.encode()).hexdigest()
        directory = self._bundler.code_dir / digest
        if not directory.exists():
            writer = CodeWriter(directory, "main.js")
            writer.add(CompiledModule("main.js", ModuleKind.JS, source.encode()))
            writer.finish()
        return digest

    def assets(
        self, files: Mapping[str, bytes], runs_worker_first: bool = False, falls_back: bool = False
    ) -> AssetsRecord:
        """Held files as the artifact store lays them down, of the type `text/x-test`."""
        entries = [
            {"path": path, "url": "https://a.example/", "sha256": self.lay_file(content), "mediaType": "text/x-test"}
            for path, content in files.items()
        ]
        manifest = self.lay_file(json.dumps({"files": entries}).encode())
        return AssetsRecord(manifest, runs_worker_first, falls_back)

    def lay_file(self, content: bytes) -> str:
        digest = hashlib.sha256(content).hexdigest()
        path = self.path_of(digest)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        return digest

    def path_of(self, digest: str) -> Path:
        return self.files / digest[:2] / digest

    async def serve(self, *weights: tuple[VersionRecord, int], name: str = "app") -> None:
        """Put one Worker with these weights in force; the first call starts the gateway."""
        route = GatewayRoute(name, name, tuple(RoutedVersion(version, weight) for version, weight in weights))
        await self.publish(RouteTable((route,)))

    async def publish(self, table: RouteTable) -> None:
        if self.gateway.pid is None:
            await self.gateway.open(table)
        else:
            await self.gateway.publish(table)

    async def serve_handler(self, body: str, before: str = "", **options: object) -> None:
        """One Worker of one Version with this `fetch` body."""
        version = await self.version("v1", handler(body, before), **options)  # type: ignore[arg-type]
        await self.serve((version, 10000))

    async def text(self, path: str = "/", **options: object) -> str:
        """The body of a 200 answer."""
        response = await self.client.get(path, **options)  # type: ignore[arg-type]
        assert response.status_code == 200, response.text
        return response.text

    async def json(self, path: str = "/") -> JsonValue:
        value: JsonValue = json.loads(await self.text(path))
        return value

    async def close(self) -> None:
        await self.client.aclose()
        await self.gateway.close()
        self.listener.close()
        self.services.close()


def queued_request(port: int, path: str = "/") -> socket.socket:
    """A connection with a request written, whoever accepts it."""
    connection = socket.create_connection(("127.0.0.1", port))
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    return connection
