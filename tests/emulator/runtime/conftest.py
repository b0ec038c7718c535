"""A pool of real workerd runners and a scripted host in place of the engine."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import pytest_asyncio

from emulator.contexts import BindingCall, ContextStart, OnLost, StepRecord, StopEvidence
from emulator.runtime.app_log import AppLog
from emulator.runtime.compiled_code import CodeWriter, CompiledModule, ModuleKind
from emulator.runtime.kernels import KernelSettings, OutboundPolicy
from emulator.runtime.locate import Runtime
from emulator.runtime.output_log import OutputLog
from emulator.runtime.platform import Reaper
from emulator.runtime.pool import PoolSettings, RunnerPool
from emulator.runtime.process import Launcher
from emulator.runtime.runner import Context, StopRules
from emulator.runtime.workbench import Deadlines
from host.model.json import JsonValue
from host.model.time import ControlledClock, RealTime
from host.ports import BindingRecord, VersionRecord
from tests.emulator.runtime.bundles import Bundler
from tests.emulator.runtime.gateways import Ingress
from tests.emulator.runtime.towns import LIMIT_S, Minutes, Town

DEADLINE_S = 20.0
PATIENT = StopRules(ack_timeout_s=DEADLINE_S)  # for a loaded machine: no test asks for the usual 0.1 s
NOW_MS = 1_800_000_000_000

Frame = list[JsonValue]
Answer = tuple[str, str | None] | None


def write_code(code_dir: Path, modules: Mapping[str, str | bytes], entrypoint: str = "main.js") -> str:
    """Compiled code as the compiler lays it down, for modules that use no `import()`: bytes are WebAssembly, texts are
    JavaScript. Returns its digest."""
    digest = hashlib.sha256(repr(sorted(modules.items())).encode()).hexdigest()
    if (code_dir / digest).exists():
        return digest
    writer = CodeWriter(code_dir / digest, entrypoint)
    for path, source in modules.items():
        if isinstance(source, bytes):
            writer.add(CompiledModule(path, ModuleKind.WASM, source))
        else:
            writer.add(CompiledModule(path, ModuleKind.JS, source.encode()))
    writer.finish()
    return digest


@dataclass
class Run:
    """One context as the scripted host sees it: every frame so far, and how it ended."""

    frames: list[Frame] = field(default_factory=list)
    context: Context | None = None
    ended: asyncio.Future[Frame] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    lost: asyncio.Future[tuple[StopEvidence, str]] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    @property
    def started(self) -> Context:
        """The running context."""
        assert self.context is not None
        return self.context

    def verbs(self) -> list[JsonValue]:
        return [frame[0] for frame in self.frames]

    async def end(self) -> Frame:
        """The frame that ended the run."""
        await asyncio.wait((self.ended, self.lost), timeout=DEADLINE_S, return_when=asyncio.FIRST_COMPLETED)
        assert self.ended.done(), self.lost
        return self.ended.result()

    async def result(self) -> JsonValue:
        """What `run` returned."""
        frame = await self.end()
        assert frame[0] == "return", frame
        assert isinstance(frame[1], str)
        value: JsonValue = json.loads(frame[1])
        return value

    async def loss(self) -> tuple[StopEvidence, str]:
        return await asyncio.wait_for(asyncio.shield(self.lost), DEADLINE_S)

    async def frame(self, verb: str, nth: int = 1) -> Frame:
        """The nth frame of that verb."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                found = [frame for frame in self.frames if frame[0] == verb]
                if len(found) >= nth:
                    return found[nth - 1]
                await asyncio.sleep(0.002)


def durable(frame: Frame) -> Answer:
    """A host for which everything is durable and every attempt the last one."""
    match frame:
        case ["done", _, _, _, text]:
            assert text is None or isinstance(text, str)
            return ("done", text)
        case ["failed", _, _, _, message]:
            return ("failed", str(message))
        case ["sleep", _, _, 0]:
            return ("done", None)
        case ["begin", *_]:
            return ("done", None)
        case _:
            return None


class NoCalls:
    """Answers binding calls with their own text."""

    def __init__(self) -> None:
        self.calls: list[BindingCall] = []

    async def answer(self, call: BindingCall) -> str:
        self.calls.append(call)
        return json.dumps(["ok", call.binding])


class ScriptedHost:
    """Starts contexts of hand-written code in a real pool and answers their frames by a function."""

    def __init__(self, pool: RunnerPool, code_dir: Path, calls: NoCalls) -> None:
        self.pool = pool
        self.calls = calls
        self._code_dir = code_dir
        self._count = 0

    async def start(
        self,
        source: str | Mapping[str, str | bytes],
        *,
        params: str | None = None,
        steps: Sequence[StepRecord] = (),
        now_ms: int | None = None,
        answer: Callable[[Frame], Answer] = durable,
        variables: Mapping[str, JsonValue] | None = None,
        bindings: tuple[BindingRecord, ...] = (),
        class_name: str = "Flow",
        instance_id: str = "i-1",
        secrets: Mapping[str, str] | None = None,
    ) -> Run:
        modules: Mapping[str, str | bytes] = {"main.js": source} if isinstance(source, str) else source
        digest = write_code(self._code_dir, modules)
        version = VersionRecord("version-1", "worker-1", digest, variables or {}, bindings, secrets=secrets or {})
        self._count += 1
        start = ContextStart(f"c{self._count}", version, class_name, instance_id, params, tuple(steps), now_ms)
        run = Run()
        run.context = await self.pool.start(start, lambda text: self._on_frame(run, text, answer), run_lost(run))
        return run

    async def run(self, body: str, **options: object) -> Run:
        """Start a class `Flow` whose `run(event, step)` has this body."""
        source = "export class Flow { constructor(env) { this.env = env; } async run(event, step) {" + body + "} }"
        return await self.start(source, **options)  # type: ignore[arg-type]

    def _on_frame(self, run: Run, text: str, answer: Callable[[Frame], Answer]) -> None:
        frame: Frame = json.loads(text)
        run.frames.append(frame)
        if frame[0] in ("return", "threw", "mismatch", "limit") and not run.ended.done():
            run.ended.set_result(frame)
        reply = answer(frame)
        if reply is not None and frame[1] != 0:
            run.started.send(json.dumps(["reply", frame[1], *reply, None]))


def run_lost(run: Run) -> OnLost:
    return lambda evidence, loss: run.lost.set_result((evidence, str(loss)))


class Pools:
    """Opens pools for a test and closes them after it."""

    def __init__(self, workerd: Path, directory: Path) -> None:
        self._workerd = workerd
        self._directory = directory
        self._closing: list[Callable[[], object]] = []
        self._pools: list[RunnerPool] = []

    async def open(self, settings: PoolSettings | None = None, outbound: OutboundPolicy | None = None) -> ScriptedHost:
        number = len(self._pools)
        reaper = Reaper()
        log = OutputLog(self._directory / f"workerd-{number}.log")
        launcher = Launcher(self._workerd, self._directory / str(number), reaper, log)
        code_dir = self._directory / "code"
        code_dir.mkdir(parents=True, exist_ok=True)
        kernel = KernelSettings(code_dir, outbound or OutboundPolicy())
        calls = NoCalls()
        clock = ControlledClock.frozen(NOW_MS)
        settings = settings or PoolSettings(4, share=1, stop=PATIENT)  # a context that a test leaves costs no other one
        pool = RunnerPool(launcher, kernel, settings, calls, clock, RealTime())
        self._pools.append(pool)
        self._closing += [launcher.close, reaper.close, log.close]
        await pool.open()
        return ScriptedHost(pool, code_dir, calls)

    async def close(self) -> None:
        for pool in self._pools:
            await pool.close()
        for close in self._closing:
            close()


@pytest.fixture
async def pools(workerd: Path, tmp_path: Path) -> AsyncIterator[Pools]:
    pools = Pools(workerd, tmp_path)
    yield pools
    await pools.close()


@pytest.fixture
async def host(pools: Pools) -> ScriptedHost:
    """A pool of its own."""
    return await pools.open()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared(workerd: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ScriptedHost]:
    """One pool for every test that harms no process; its tests run on the session's event loop."""
    pools = Pools(workerd, tmp_path_factory.mktemp("shared"))
    yield await pools.open()
    await pools.close()


@pytest.fixture
def said() -> AppLog:
    """What isolates with its tag print."""
    return AppLog(lambda: NOW_MS)


@pytest.fixture
def launcher(workerd: Path, tmp_path: Path, said: AppLog) -> Iterator[Launcher]:
    """Starts workerd processes that the test ends."""
    reaper = Reaper()
    log = OutputLog(tmp_path / "log" / "workerd.log", said)
    launcher = Launcher(workerd, tmp_path, reaper, log)
    yield launcher
    launcher.close()
    reaper.close()
    log.close()


@pytest.fixture
def bundler(launcher: Launcher, runtime: Runtime, tmp_path: Path) -> Bundler:
    """The compiler, with the bytes it reads in memory."""
    return Bundler(launcher, runtime.parser, tmp_path, Deadlines(inspect_s=20.0))


@pytest.fixture
async def ingress(launcher: Launcher, bundler: Bundler, said: AppLog) -> AsyncIterator[Ingress]:
    """A gateway that the test starts with its first Worker."""
    ingress = Ingress(launcher, bundler, tags=said.tags)
    yield ingress
    await ingress.close()


@pytest.fixture
async def town(launcher: Launcher, bundler: Bundler, said: AppLog) -> AsyncIterator[Town]:
    time = Minutes()
    ingress = Ingress(launcher, bundler, LIMIT_S, said.tags, real_time=time)
    yield Town(ingress, time)
    await ingress.close()
