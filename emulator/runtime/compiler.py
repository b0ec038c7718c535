"""The `CodePort`: held modules become compiled code on disk, with a report of what they export (MW-10 to MW-13, DW-20).

Owns the order of the checks and their words; parsing, rewriting and inspecting happen in killable workerd processes.
Knows no Form and no Version.
"""

import asyncio
import shutil
import uuid
from pathlib import Path
from typing import Protocol

from emulator.runtime.compiled_code import (
    CodeWriter,
    CompiledModule,
    ModuleKind,
    code_digest,
    publish,
    read_report,
    write_report,
)
from emulator.runtime.process import Launcher
from emulator.runtime.workbench import Bench, Deadlines, ModuleRefused, Workbench
from host.ports import CodeRejected, CodeReport, HeldFile, ModuleGraph

MEDIA_KINDS = {
    "application/javascript+module": ModuleKind.JS,
    "text/plain": ModuleKind.TEXT,
    "application/octet-stream": ModuleKind.DATA,
    "application/wasm": ModuleKind.WASM,
}
DEFAULT_DEADLINES = Deadlines()
AT_ONCE = 2
"""Bundles compiled side by side: more would only share the processors."""


class ArtifactReader(Protocol):
    """The part of `host.ports.ArtifactPort` that compiling needs."""

    async def read(self, sha256: str) -> bytes:
        """The held bytes."""


class CodeCompiler:
    """Compiles into `code_dir`; only whole directories carry a digest as their name there."""

    def __init__(
        self,
        artifacts: ArtifactReader,
        code_dir: Path,
        launcher: Launcher,
        parser: Path,
        deadlines: Deadlines = DEFAULT_DEADLINES,
    ) -> None:
        self._artifacts = artifacts
        self._code_dir = code_dir
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._work_dir = code_dir / "work"
        self.workbench = Workbench(launcher, parser, self._work_dir, deadlines)
        shutil.rmtree(self._work_dir, ignore_errors=True)
        self._work_dir.mkdir(parents=True)

    async def verify(self, graph: ModuleGraph) -> CodeReport:
        """Compile and inspect, or tell again what was proven. Raises as `host.ports.CodePort` says."""
        final = self._code_dir / code_digest(graph.manifest_sha256)
        report = await asyncio.to_thread(read_report, final)
        if report is not None:
            return report
        async with self._slots:
            work = self._work_dir / uuid.uuid4().hex
            try:
                return await self._build(graph, work / final.name, final)
            finally:
                await asyncio.to_thread(shutil.rmtree, work, ignore_errors=True)

    async def _build(self, graph: ModuleGraph, written: Path, final: Path) -> CodeReport:
        await self._compile(graph, written)
        exports = await self.workbench.inspect(written)
        report = CodeReport(final.name, exports.handlers, exports.classes)
        await asyncio.to_thread(write_report, written, report)
        await asyncio.to_thread(publish, written, final)
        return report

    async def _compile(self, graph: ModuleGraph, directory: Path) -> None:
        kinds = module_kinds(graph)
        writer = CodeWriter(directory, graph.entrypoint)
        async with self.workbench.open_compiler() as bench:
            await bench.set_graph(kinds)
            for file in graph.files:
                data = await self._artifacts.read(file.sha256)
                compiled = await compile_module(bench, file, kinds[file.path], data)
                await asyncio.to_thread(writer.add, CompiledModule(file.path, kinds[file.path], compiled))
        await asyncio.to_thread(writer.finish)


def module_kinds(graph: ModuleGraph) -> dict[str, ModuleKind]:
    """What each path is to an importer. The manifest's media type counts, names do not (WB-04).

    A file named after a module plus `.map` is that module's source map: in the bundle, but not to be imported (MW-11,
    our reading, since no media type says so).
    """
    kinds = {file.path: MEDIA_KINDS.get(file.media_type, ModuleKind.OTHER) for file in graph.files}
    for path in kinds:
        if path.endswith(".map") and kinds.get(path.removesuffix(".map")) is ModuleKind.JS:
            kinds[path] = ModuleKind.OTHER
    return kinds


async def compile_module(bench: Bench, file: HeldFile, kind: ModuleKind, data: bytes) -> bytes:
    """The bytes that isolates load, checked against the media type (MW-12)."""
    if kind in {ModuleKind.JS, ModuleKind.TEXT}:
        check_utf8(file.path, data)
    try:
        if kind is ModuleKind.JS:
            return await bench.rewrite(file.path, data)
        if kind is ModuleKind.WASM:
            await bench.check_wasm(data)
    except ModuleRefused as refused:
        raise CodeRejected(refusal_text(file.path, refused)) from refused
    return data


def check_utf8(path: str, data: bytes) -> None:
    """Raise `CodeRejected` naming the first byte that is not UTF-8."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CodeRejected(f"{path}: invalid UTF-8 at byte {error.start}") from error


def refusal_text(path: str, refused: ModuleRefused) -> str:
    """`a/b.js:3: module_not_found: no module "./c" in the bundle`."""
    place = path if refused.line is None else f"{path}:{refused.line}"
    return f"{place}: {refused.reason}: {refused.message}"
