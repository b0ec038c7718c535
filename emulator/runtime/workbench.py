"""Short-lived workerd processes that compile or inspect one bundle and are killed at a deadline of real time.

Owns their configuration, their life and the meaning of their answers. Knows no bundle manifest and keeps no result.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from emulator.runtime.compiled_code import ModuleKind
from emulator.runtime.locate import Runtime
from host.ports import CodeRejected

JS = Path(__file__).parent / "js"
ISOLATE_MODULES = (
    "arguments",
    "bindings",
    "clock",
    "doc",
    "errors",
    "imp",
    "inspect",
    "prim",
    "resolve",
    "workflow_binding",
)
UNBOUNDED = httpx.Timeout(None)  # the deadlines of whole jobs bound every request
COMPILE_DEADLINE_S = 60.0
INSPECT_DEADLINE_S = 5.0


class ModuleRefused(Exception):
    """The compiler's verdict on one module; `reason` is `module_not_found`, `unsupported_media_type`, ..."""

    def __init__(self, reason: str, message: str, line: int | None) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.line = line


@dataclass(frozen=True, slots=True)
class Exports:
    """What inspection found on the main module (MW-10, DW-20)."""

    handlers: tuple[str, ...]
    classes: tuple[str, ...]


class Bench:
    """A running compiler process, for one graph."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def set_graph(self, kinds: Mapping[str, ModuleKind]) -> None:
        """State every path of the bundle: what static imports are resolved against."""
        text = json.dumps([[path, kind.value] for path, kind in kinds.items()])
        await self._post("/graph", text.encode())

    async def rewrite(self, path: str, source: bytes) -> bytes:
        """The text that runs in place of `source`. Raises `ModuleRefused`."""
        return (await self._post("/module", source, {"x-path": json.dumps(path)})).content

    async def check_wasm(self, data: bytes) -> None:
        """Raises `ModuleRefused` for bytes that no engine would compile."""
        await self._post("/wasm", data)

    async def _post(self, path: str, body: bytes, headers: Mapping[str, str] | None = None) -> httpx.Response:
        response = await self._client.post(path, content=body, headers=headers)
        if response.status_code == HTTPStatus.UNPROCESSABLE_ENTITY:
            refused = response.json()
            raise ModuleRefused(refused["reason"], refused["message"], refused["line"])
        response.raise_for_status()
        return response


class Workbench:
    """Starts a process per job. Deadlines are seconds of real time."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        compile_deadline_s: float = COMPILE_DEADLINE_S,
        inspect_deadline_s: float = INSPECT_DEADLINE_S,
    ) -> None:
        self._runtime = runtime
        self._compile_deadline_s = compile_deadline_s
        self._inspect_deadline_s = inspect_deadline_s

    @asynccontextmanager
    async def open_compiler(self) -> AsyncIterator[Bench]:
        """A compiler for one graph. Raises `CodeRejected` when the graph takes too long or too much memory."""
        late = f"the bundle could not be compiled within {self._compile_deadline_s:g} s"
        with rejecting(late, "the bundle needs too much memory to be compiled"):
            async with asyncio.timeout(self._compile_deadline_s):
                async with self._serve(compiler_config(self._runtime.parser)) as client:
                    yield Bench(client)

    async def inspect(self, code: Path) -> Exports:
        """What the main module of a compiled directory exports. Raises `CodeRejected` with the reason."""
        late = f"the main module did not finish evaluating within {self._inspect_deadline_s:g} s"
        async with self._serve(inspector_config(code.parent)) as client:
            with rejecting(late, "the main module ended the runtime while it was evaluated"):
                async with asyncio.timeout(self._inspect_deadline_s):
                    answer = await client.get(f"/{code.name}")
        found = answer.json() if answer.is_success else {"failure": "the modules could not be loaded"}
        if "failure" in found:
            raise CodeRejected(found["failure"])
        return Exports(tuple(found["handlers"]), tuple(found["classes"]))

    @asynccontextmanager
    async def _serve(self, config: str) -> AsyncIterator[httpx.AsyncClient]:
        with TemporaryDirectory(prefix="takohost-") as name:
            directory = Path(name)
            (directory / "config.capnp").write_text(config)
            process = await asyncio.create_subprocess_exec(
                self._runtime.workerd, "serve", "--experimental", "-I", "/", "config.capnp", cwd=directory
            )
            try:
                socket = directory / "s"
                while not socket.exists():
                    await asyncio.sleep(0.005)
                transport = httpx.AsyncHTTPTransport(uds=str(socket))
                async with httpx.AsyncClient(transport=transport, base_url="http://bench", timeout=UNBOUNDED) as client:
                    yield client
            finally:
                if process.returncode is None:
                    process.kill()
                await process.wait()


@contextmanager
def rejecting(late: str, died: str) -> Iterator[None]:
    """Turn a passed deadline and a process that died into `CodeRejected` with these reasons."""
    try:
        yield
    except TimeoutError as error:
        raise CodeRejected(late) from error
    except httpx.TransportError as error:
        raise CodeRejected(died) from error


def compiler_config(parser: Path) -> str:
    """A worker of three modules of ours and the parser, without any binding or way out."""
    modules = [js_module(name) for name in ("compile.js", "rewrite.js", "resolve.js", "prim.js")]
    return config_text([*modules, embedded("meriyah.mjs", "esModule", parser)])


def inspector_config(code_root: Path) -> str:
    """A kernel that loads compiled code below `code_root` into one isolate without a way out."""
    modules = [js_module(name) for name in ("kernel_inspect.js", "kernel_shared.js", "outbound.js", "addresses.js")]
    texts = [embedded(f"{name}.txt", "text", JS / f"{name}.js") for name in ISOLATE_MODULES]
    return config_text(
        [*modules, *texts],
        bindings='(name = "LOADER", workerLoader = ()), (name = "CODE", service = "code")',
        services=f'(name = "code", disk = (path = {json.dumps(str(code_root))}))',
    )


def js_module(name: str) -> str:
    return embedded(name, "esModule", JS / name)


def embedded(name: str, kind: str, path: Path) -> str:
    return f"(name = {json.dumps(name)}, {kind} = embed {json.dumps(str(path))})"


def config_text(modules: list[str], bindings: str = "", services: str = "") -> str:
    return f"""using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  v8Flags = ["--max-old-space-size=1024"],
  services = [(name = "main", worker = .main), {services}],
  sockets = [(name = "http", address = "unix:s", http = (), service = "main")],
);
const main :Workerd.Worker = (
  modules = [{", ".join(modules)}],
  bindings = [{bindings}],
  compatibilityDate = "2026-01-01",
);
"""
