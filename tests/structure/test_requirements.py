"""Tests name requirements that exist."""

import ast
import json
import re
from collections.abc import Iterator

from tests.structure.sources import ROOT, Module, read_modules

TESTS = read_modules("tests")


def read_titles() -> dict[str, str]:
    """Requirement id -> title, from docs/requirements.json."""
    titles = json.loads((ROOT / "docs" / "requirements.json").read_bytes())
    assert isinstance(titles, dict)
    return titles


def marked_ids(module: Module) -> Iterator[tuple[str, int]]:
    """(id, line) of every `pytest.mark.req(...)` argument; an argument that is no literal counts as its source."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("mark.req"):
            for argument in node.args:
                literal = argument.value if isinstance(argument, ast.Constant) else ast.unparse(argument)
                yield str(literal), argument.lineno


def test_every_id_is_well_formed_and_titled() -> None:
    titles = read_titles()
    assert len(titles) >= 270
    assert not [name for name in titles if not re.fullmatch(r"(HA|MW|WB|SA|WV|WD|WE|DW|RS|FJ)-\d\d", name)]
    assert all(isinstance(title, str) and title for title in titles.values())


def test_a_test_names_only_ids_that_exist() -> None:
    titles = read_titles()
    unknown = [
        f"{module.path}:{line} {name}" for module in TESTS for name, line in marked_ids(module) if name not in titles
    ]
    assert not unknown, "\n".join(unknown)
