"""The bundle compiler, made when the first bundle arrives: its imports are heavy and most starts never need them."""

from pathlib import Path
from typing import TYPE_CHECKING

from emulator.compose.workerd_side import WorkerdSide
from host.ports import ArtifactPort, CodeReport, ModuleGraph

if TYPE_CHECKING:
    from emulator.runtime.compiler import CodeCompiler


class CompilerOnDemand:
    """A CodePort."""

    def __init__(self, artifacts: ArtifactPort, folder: Path, workerd: WorkerdSide, parser: Path) -> None:
        self._artifacts = artifacts
        self._folder = folder
        self._workerd = workerd
        self._parser = parser
        self._compiler: CodeCompiler | None = None

    async def verify(self, graph: ModuleGraph) -> CodeReport:
        """As `host.ports.CodePort` says."""
        if self._compiler is None:
            from emulator.runtime.compiler import CodeCompiler

            self._compiler = CodeCompiler(self._artifacts, self._folder, self._workerd.launcher, self._parser)
        return await self._compiler.verify(graph)
