"""Reads the repository as text and syntax trees for the structure tests. Knows no rule."""

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("host", "emulator")


@dataclass(frozen=True, slots=True)
class Module:
    """One Python file: its dotted name, its path below the root, its text and syntax tree."""

    name: str
    path: Path
    text: str
    tree: ast.Module

    @property
    def is_package(self) -> bool:
        """Whether it is a package's `__init__`."""
        return self.path.name == "__init__.py"


@dataclass(frozen=True, slots=True)
class Import:
    """One imported name: `target` is a module of ours; `at_load` is false inside functions and TYPE_CHECKING."""

    importer: Module
    target: str
    line: int
    at_load: bool


@cache
def read_modules(*tops: str) -> tuple[Module, ...]:
    """Every module below the named top directories, in order of name."""
    found = []
    for path in sorted(path for top in tops for path in (ROOT / top).rglob("*.py")):
        relative = path.relative_to(ROOT)
        name = ".".join(relative.with_suffix("").parts).removesuffix(".__init__")
        text = path.read_text("utf-8")
        found.append(Module(name, relative, text, ast.parse(text, str(relative))))
    return tuple(found)


def imports_of(module: Module, known: frozenset[str]) -> Iterator[Import]:
    """The imports of `module` that name one of the `known` modules of ours."""
    for node, at_load in walk_statements(module.tree.body, at_load=True):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = absolute_base(module, node)
            names = [f"{base}.{alias.name}" if f"{base}.{alias.name}" in known else base for alias in node.names]
        else:
            continue
        for name in dict.fromkeys(names):
            if name.split(".")[0] in PACKAGES:
                yield Import(module, name, node.lineno, at_load)


def absolute_base(module: Module, node: ast.ImportFrom) -> str:
    """The absolute module that a `from ... import` names, relative ones resolved."""
    if not node.level:
        return node.module or ""
    parts = module.name.split(".")
    kept = parts[: len(parts) - node.level + (1 if module.is_package else 0)]
    return ".".join([*kept, *([node.module] if node.module else [])])


def walk_statements(body: list[ast.stmt], *, at_load: bool) -> Iterator[tuple[ast.stmt, bool]]:
    """Every statement below `body`, with whether it runs when the module is loaded."""
    for statement in body:
        yield statement, at_load
        inner = at_load and not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef)
        if isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test):
            inner = False
        for field in ("body", "orelse", "finalbody"):
            yield from walk_statements(getattr(statement, field, []), at_load=inner)
        for part in (*getattr(statement, "handlers", []), *getattr(statement, "cases", [])):
            yield from walk_statements(part.body, at_load=inner)


@cache
def tracked_files() -> tuple[Path, ...]:
    """Every file under version control, below the root; those deleted from the work tree are left out."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return tuple(Path(name) for name in listed.stdout.split("\0") if name and (ROOT / name).is_file())
