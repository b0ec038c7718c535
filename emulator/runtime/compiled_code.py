"""Compiled code on disk: `<state>/code/<code_digest>/` with an index, numbered module files and the report.

Owns names and durability of that layout; knows neither JavaScript nor workerd. A directory that carries its final
name is whole: it is written elsewhere, made durable and renamed.
"""

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from host.ports import CodeReport, ModuleGraph

COMPILER_VERSION = "1"
"""Part of every code digest: raise it when the same manifest must be compiled anew."""

INDEX = "index.json"
REPORT = "report.json"


class ModuleKind(StrEnum):
    """How a module is given to the isolate (MW-13). `OTHER` is in the bundle but cannot be imported (MW-11)."""

    JS = "js"
    TEXT = "text"
    DATA = "data"
    WASM = "wasm"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class CompiledModule:
    """A module as isolates load it; `data` is the rewritten text of JavaScript, else the held bytes."""

    path: str
    kind: ModuleKind
    data: bytes


@dataclass(frozen=True, slots=True)
class ModuleEntry:
    """A line of the index: `file` is the module's file name beside it."""

    path: str
    kind: ModuleKind
    file: str


@dataclass(frozen=True, slots=True)
class CodeIndex:
    """What `index.json` says."""

    entrypoint: str
    modules: tuple[ModuleEntry, ...]


def code_digest(graph: ModuleGraph) -> str:
    """64 hex digits that name the compiled form of a verified manifest."""
    return hashlib.sha256(f"{graph.manifest_sha256}\n{COMPILER_VERSION}".encode()).hexdigest()


class CodeWriter:
    """Writes one compiled graph into `directory`, which must not exist yet. Blocking."""

    def __init__(self, directory: Path, entrypoint: str) -> None:
        self._directory = directory
        self._entrypoint = entrypoint
        self._entries: list[ModuleEntry] = []
        directory.mkdir(parents=True)

    def add(self, module: CompiledModule) -> None:
        """Write the next module, durably."""
        entry = ModuleEntry(module.path, module.kind, str(len(self._entries)))
        write_durably(self._directory / entry.file, module.data)
        self._entries.append(entry)

    def finish(self) -> None:
        """Write the index: isolates can load the directory now."""
        modules = [{"path": e.path, "kind": e.kind.value, "file": e.file} for e in self._entries]
        text = json.dumps({"entrypoint": self._entrypoint, "modules": modules}, separators=(",", ":"))
        write_durably(self._directory / INDEX, text.encode())


def write_report(directory: Path, report: CodeReport) -> None:
    """Add what inspection proved: the last file of a directory that is whole."""
    content = {"handlers": report.handlers, "classes": report.classes}
    write_durably(directory / REPORT, json.dumps(content, separators=(",", ":")).encode())


def read_report(directory: Path) -> CodeReport | None:
    """The report of a whole directory, None where there is none."""
    try:
        stated = json.loads((directory / REPORT).read_bytes())
    except FileNotFoundError:
        return None
    return CodeReport(directory.name, tuple(stated["handlers"]), tuple(stated["classes"]))


def publish(written: Path, final: Path) -> None:
    """Give a written directory its final name, durably; one that is there already wins."""
    sync_directory(written)
    try:
        written.rename(final)
    except OSError:
        if not (final / REPORT).is_file():
            raise
        shutil.rmtree(written, ignore_errors=True)
    sync_directory(final.parent)


def write_durably(path: Path, data: bytes) -> None:
    """Create a file and sync its content."""
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
