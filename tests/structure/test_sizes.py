"""Modules and functions stay small, modules are named for what they own and say so."""

import ast
from collections.abc import Iterator

from tests.structure.sources import PACKAGES, ROOT, Module, read_modules

MODULE_LINES = 400
FUNCTION_LINES = 40
NEWLINE = "\n"
FORBIDDEN = {"util", "utils", "helper", "helpers", "common", "manager", "managers", "misc"}

EVERY = read_modules(*PACKAGES, "tests")
OURS = read_modules(*PACKAGES)


def functions_of(module: Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method of a module, inner ones included."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_modules_are_small() -> None:
    long = [f"{module.path} has {module.text.count(NEWLINE)} lines" for module in EVERY if too_long(module.text)]
    assert not long, NEWLINE.join(long)


def test_functions_are_small() -> None:
    long = [
        f"{module.path}:{node.lineno} {node.name} has {node.end_lineno - node.lineno + 1} lines"
        for module in EVERY
        for node in functions_of(module)
        if node.end_lineno is not None and node.end_lineno - node.lineno + 1 > FUNCTION_LINES
    ]
    assert not long, NEWLINE.join(long)


def test_no_script_of_the_isolate_is_too_long() -> None:
    scripts = [path for top in PACKAGES for path in (ROOT / top).rglob("*.js")]
    assert scripts
    assert not [path.relative_to(ROOT) for path in scripts if too_long(path.read_text("utf-8"))]


def test_no_module_has_a_name_that_says_nothing() -> None:
    assert not [module.path for module in EVERY if FORBIDDEN & set(module.name.split("."))]


def test_a_module_opens_with_what_it_owns() -> None:
    assert not [module.path for module in OURS if not ast.get_docstring(module.tree)]


def too_long(text: str) -> bool:
    """Whether a module's text has more lines than a module may."""
    return text.count(NEWLINE) > MODULE_LINES
