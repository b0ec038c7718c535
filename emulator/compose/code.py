"""The bundle compiler, made when the first bundle arrives: its imports are heavy and most starts never need them.

Also the repair of compiled code that a kernel found missing or damaged: it is made again of what the host holds.
"""

import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.artifacts import ArtifactCustody
from emulator.compose.workerd_side import WorkerdSide
from emulator.contexts import BindingCall, BindingCalls
from emulator.runtime.compiled_code import code_digest
from host.forms.worker_bundle import graph_in
from host.model.time import RealTime
from host.ports import ArtifactPort, ArtifactRefused, CodeReport, ModuleGraph

if TYPE_CHECKING:
    from emulator.runtime.compiler import CodeCompiler

_LOG = logging.getLogger(__name__)
_PATIENCE_S = 1.0
"""What cannot be repaired now is answered after a pause: whoever asks would come again at once."""


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


class CodeRepair(BindingCalls):
    """Answers kernels that cannot read compiled code: `["ok"]` once it lies there whole."""

    def __init__(
        self,
        artifacts: ArtifactCustody,
        compiler: CompilerOnDemand,
        real_time: RealTime,
        on_loss: Callable[[], None] = lambda: None,
    ) -> None:
        self._artifacts = artifacts
        self._on_loss = on_loss
        self._compiler = compiler
        self._real_time = real_time
        self._under_way: dict[str, asyncio.Task[str]] = {}

    async def answer(self, call: BindingCall) -> str:
        digest = call.target_uid
        if digest not in self._under_way:
            task = self._under_way[digest] = asyncio.create_task(self._repair(digest))
            task.add_done_callback(lambda _: self._under_way.pop(digest))
        return await asyncio.shield(self._under_way[digest])

    async def _repair(self, digest: str) -> str:
        try:
            await self._compiler.verify(await self._graph(digest))
        except Exception as error:
            if isinstance(error, ArtifactRefused):
                self._on_loss()
            _LOG.error("compiled code %s is damaged and cannot be made again: %s", digest, error)
            await self._real_time.sleep_s(_PATIENCE_S)
            return json.dumps(["error", "backend_unavailable", str(error)])
        _LOG.warning("compiled code %s was missing or damaged and has been made again", digest)
        return '["ok"]'

    async def _graph(self, digest: str) -> ModuleGraph:
        for held in await self._artifacts.digests():
            if code_digest(held) == digest:
                return graph_in(held, await self._artifacts.read(held))
        raise ArtifactRefused("the host does not hold its bundle")
