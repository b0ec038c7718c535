"""Bundles as tests write them: path -> source, media types by the file's ending."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from emulator.runtime.compiler import CodeCompiler
from emulator.runtime.process import Launcher
from emulator.runtime.workbench import Deadlines
from host.ports import CodeReport, HeldFile, ModuleGraph

MEDIA_TYPES = {
    ".js": "application/javascript+module",
    ".txt": "text/plain",
    ".bin": "application/octet-stream",
    ".map": "application/octet-stream",
    ".wasm": "application/wasm",
}


@dataclass
class HeldBytes:
    """An `ArtifactReader` of bytes in memory."""

    held: dict[str, bytes] = field(default_factory=dict)

    def hold(self, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        self.held[digest] = data
        return digest

    async def read(self, sha256: str) -> bytes:
        return self.held[sha256]


class Bundler:
    """Compiles bundles of a test into `directory/code`."""

    def __init__(self, launcher: Launcher, parser: Path, directory: Path, deadlines: Deadlines) -> None:
        self.code_dir = directory / "code"
        self.artifacts = HeldBytes()
        self.compiler = CodeCompiler(self.artifacts, self.code_dir, launcher, parser, deadlines)

    def graph(self, files: Mapping[str, str | bytes], entrypoint: str = "main.js") -> ModuleGraph:
        modules = []
        for path, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            modules.append(HeldFile(path, self.artifacts.hold(data), MEDIA_TYPES[Path(path).suffix]))
        manifest = repr((entrypoint, modules)).encode()
        return ModuleGraph(hashlib.sha256(manifest).hexdigest(), entrypoint, tuple(modules))

    async def verify(self, files: Mapping[str, str | bytes], entrypoint: str = "main.js") -> CodeReport:
        return await self.compiler.verify(self.graph(files, entrypoint))
