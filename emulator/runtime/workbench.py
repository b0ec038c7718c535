"""Short-lived workerd processes that compile or inspect one bundle and are killed at a deadline of real time.

Owns their configuration, their life and the meaning of their answers. Knows no bundle manifest and keeps no result.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar

import httpx

from emulator.runtime.compiled_code import ModuleKind
from emulator.runtime.config import Config
from emulator.runtime.identity import figures_of
from emulator.runtime.kernels import BENCH_SOCKET, compiler_config, inspector_config
from emulator.runtime.platform import Child, limit_data
from emulator.runtime.process import START_TIMEOUT_S, Launcher
from host.ports import BackendUnavailable, CodeRejected

UNBOUNDED = httpx.Timeout(None)  # the deadlines of whole jobs bound every request
_PATIENCE = 6
_INSPECTOR_DATA_BYTES = 1536 * 1024 * 1024


Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds of real time for a whole job."""

    compile_s: float = 60.0
    inspect_s: float = 5.0


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
    """Starts a process per job. Inspects code below `work_dir`."""

    def __init__(self, launcher: Launcher, parser: Path, work_dir: Path, deadlines: Deadlines) -> None:
        self._launcher = launcher
        self._work_dir = work_dir
        self._deadlines = deadlines
        self._compiler = compiler_config(parser)
        self._inspector = inspector_config(work_dir)

    @asynccontextmanager
    async def open_compiler(self) -> AsyncIterator[Bench]:
        """A compiler for one graph. Raises `CodeRejected` when the graph takes too long or too much memory."""
        late = f"the bundle could not be compiled within {self._deadlines.compile_s:g} s"
        with rejecting(late, "the bundle needs too much memory to be compiled"):
            async with asyncio.timeout(self._deadlines.compile_s), self._serve(self._compiler) as running:
                yield Bench(running.client)

    async def inspect(self, code: Path) -> Exports:
        """What the main module of a compiled directory exports. Raises `CodeRejected` with the reason."""
        late = f"the main module did not finish evaluating within {self._deadlines.inspect_s:g} s"
        async with self._serve(self._inspector, _INSPECTOR_DATA_BYTES) as running:
            await running.ready()
            with rejecting(late, "the main module ended the runtime while it was evaluated"):
                path = "/" + code.relative_to(self._work_dir).as_posix()
                answer = await running.within(self._deadlines.inspect_s, running.client.get(path))
        if not answer.is_success:
            raise BackendUnavailable("the compiled code could not be inspected")
        found = answer.json()
        if "failure" in found:
            raise CodeRejected(found["failure"].replace("'/app/", "'/"))  # as the bundle spells it
        return Exports(tuple(found["handlers"]), tuple(found["classes"]))

    @asynccontextmanager
    async def _serve(self, config: Config, data_bytes: int | None = None) -> AsyncIterator["Running"]:
        listener, path = self._launcher.listen()
        try:
            with listener:  # ours is closed at once: a process that dies resets what still waits to be accepted
                child = self._launcher.spawn(config, {BENCH_SOCKET: listener})
        except OSError as error:
            raise BackendUnavailable("the JavaScript runtime could not be started") from error
        try:
            if data_bytes is not None:
                limit_data(child.pid, data_bytes)
            transport = httpx.AsyncHTTPTransport(uds=str(path))
            async with httpx.AsyncClient(transport=transport, base_url="http://bench", timeout=UNBOUNDED) as client:
                yield Running(client, child)
        finally:
            path.unlink()
            await child.end()


class Running:
    """A process of the workbench and the way to ask it."""

    def __init__(self, client: httpx.AsyncClient, child: Child) -> None:
        self.client = client
        self._child = child

    async def ready(self) -> None:
        """Return once it answers, however long a loaded machine takes. Raises `BackendUnavailable`."""
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                await self.client.get("/")
        except (TimeoutError, httpx.TransportError) as error:
            raise BackendUnavailable("the JavaScript runtime did not start") from error

    async def within(self, deadline_s: float, asking: Coroutine[Any, Any, Answer]) -> Answer:
        """What `asking` gives. Raises TimeoutError once the deadline has passed and the process has had the processor
        for half of it; a machine too loaded for that is waited for a few deadlines longer."""
        task = asyncio.create_task(asking)
        begun_cpu_s = self._cpu_s()
        try:
            for _ in range(_PATIENCE):
                done, _ = await asyncio.wait((task,), timeout=deadline_s)
                if done:
                    return task.result()
                if self._cpu_s() - begun_cpu_s >= deadline_s / 2:
                    break
            raise TimeoutError
        finally:
            task.cancel()
            await asyncio.wait((task,))

    def _cpu_s(self) -> float:
        figures = figures_of(self._child.pid)
        return 0.0 if figures is None else figures.cpu_s


@contextmanager
def rejecting(late: str, died: str) -> Iterator[None]:
    """Turn a passed deadline and a process that died into `CodeRejected` with these reasons."""
    try:
        yield
    except TimeoutError as error:
        raise CodeRejected(late) from error
    except httpx.TransportError as error:
        raise CodeRejected(died) from error
