"""Compiled code on disk: `<state>/code/<code_digest>/` with an index, numbered module files and the report.

Owns names and durability of that layout; knows neither JavaScript nor workerd. A directory that carries its final
name was whole: it is written elsewhere, made durable and renamed. Whoever reads it checks the digests in it: index and
report are JSON behind a line with their own SHA-256, the index has those of the module files.
"""

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from host.ports import CodeReport

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
    sha256: str


def code_digest(manifest_sha256: str) -> str:
    """64 hex digits that name the compiled form of a verified manifest."""
    return hashlib.sha256(f"{manifest_sha256}\n{COMPILER_VERSION}".encode()).hexdigest()


class CodeWriter:
    """Writes one compiled graph into `directory`, which must not exist yet. Blocking."""

    def __init__(self, directory: Path, entrypoint: str) -> None:
        self._directory = directory
        self._entrypoint = entrypoint
        self._entries: list[ModuleEntry] = []
        directory.mkdir(parents=True)

    def add(self, module: CompiledModule) -> None:
        """Write the next module, durably."""
        sha256 = hashlib.sha256(module.data).hexdigest()
        entry = ModuleEntry(module.path, module.kind, str(len(self._entries)), sha256)
        write_durably(self._directory / entry.file, module.data)
        self._entries.append(entry)

    def finish(self) -> None:
        """Write the index: isolates can load the directory now."""
        modules = [{"path": e.path, "kind": e.kind.value, "file": e.file, "sha256": e.sha256} for e in self._entries]
        write_durably(self._directory / INDEX, _sealed({"entrypoint": self._entrypoint, "modules": modules}))


def write_report(directory: Path, report: CodeReport) -> None:
    """Add what inspection proved: the last file of a directory that is whole."""
    content = {"handlers": report.handlers, "classes": report.classes}
    write_durably(directory / REPORT, _sealed(content))


def read_report(directory: Path) -> CodeReport | None:
    """The report of a directory whose every file is as it was written, None for any other. Blocking."""
    try:
        stated = _unsealed((directory / REPORT).read_bytes())
        for module in _unsealed((directory / INDEX).read_bytes())["modules"]:
            _check((directory / module["file"]).read_bytes(), module["sha256"])
    except (OSError, _Damaged):
        return None
    return CodeReport(directory.name, tuple(stated["handlers"]), tuple(stated["classes"]))


class _Damaged(Exception):
    """Bytes that are not those of their digest."""


def _sealed(content: object) -> bytes:
    data = json.dumps(content, separators=(",", ":")).encode()
    return hashlib.sha256(data).hexdigest().encode() + b"\n" + data


def _unsealed(data: bytes) -> Any:
    digest, _, content = data.partition(b"\n")
    _check(content, digest.decode(errors="replace"))
    return json.loads(content)


def _check(data: bytes, sha256: str) -> None:
    if hashlib.sha256(data).hexdigest() != sha256:
        raise _Damaged


def publish(written: Path, final: Path) -> None:
    """Give a written directory its final name, durably. A whole one that is there wins; a damaged one goes aside."""
    sync_directory(written)
    if final.exists():
        if read_report(final) is not None:
            shutil.rmtree(written, ignore_errors=True)
            return
        final.rename(written.with_name(f"{written.name}.damaged"))
    written.rename(final)
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
