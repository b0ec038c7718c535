"""The order in which a runtime is looked for, and what is said when none is there."""

import json
import os
from pathlib import Path

import pytest

from emulator.runtime.locate import locate_runtime
from emulator.runtime.pins import installed_modules, parser_in, read_pins, workerd_in
from emulator.runtime.unusable import NotProgram, RuntimeMissing, WrongVersion
from tests.emulator.runtime.programs import speaking, write_program

GOOD = speaking(f"workerd {read_pins().workerd_date}")
OTHER = speaking("workerd 2024-01-01")


class Machine:
    """An empty machine: a home, a project below it, a directory on PATH."""

    def __init__(self, root: Path) -> None:
        self.project = root / "home" / "project" / "deep"
        self.project.mkdir(parents=True)
        self.on_path = root / "bin" / "workerd"
        self.env = {"HOME": str(root / "home"), "PATH": f"{self.on_path.parent}{os.pathsep}/usr/bin{os.pathsep}/bin"}
        self.modules = self.project.parent / "node_modules"
        self.cached = installed_modules(self.env)

    def put_workerd(self, modules: Path, content: bytes = GOOD) -> Path:
        return write_program(workerd_in(modules), content)

    def put_parser(self, modules: Path, version: str = read_pins().parser) -> Path:
        parser = parser_in(modules)
        parser.parent.mkdir(parents=True)
        parser.write_text("export {};")
        (parser.parents[1] / "package.json").write_text(json.dumps({"version": version}))
        return parser

    def found(self) -> Path:
        return locate_runtime(self.env, self.project).workerd


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_override_comes_before_the_project_then_path_then_the_cache(machine: Machine, tmp_path: Path) -> None:
    cached = machine.put_workerd(machine.cached)
    machine.put_parser(machine.cached)
    assert machine.found() == cached
    on_path = write_program(machine.on_path, GOOD)
    assert machine.found() == on_path
    mine = machine.put_workerd(machine.modules)
    assert machine.found() == mine
    chosen = write_program(tmp_path / "chosen", GOOD)
    machine.env["TAKOHOST_WORKERD"] = str(chosen)
    assert machine.found() == chosen


def test_the_nearest_node_modules_wins(machine: Machine) -> None:
    machine.put_parser(machine.cached)
    machine.put_workerd(machine.modules)
    nearest = machine.put_workerd(machine.project / "node_modules")
    assert machine.found() == nearest


def test_another_version_in_the_project_is_passed_over_when_the_cache_has_the_right_one(machine: Machine) -> None:
    machine.put_workerd(machine.modules, OTHER)
    write_program(machine.on_path, b"#!/usr/bin/env node\n")
    machine.put_parser(machine.cached)
    cached = machine.put_workerd(machine.cached)
    assert machine.found() == cached


def test_another_version_is_the_reason_when_there_is_no_right_one(machine: Machine) -> None:
    machine.put_workerd(machine.modules, OTHER)
    with pytest.raises(WrongVersion, match="2024-01-01"):
        machine.found()


def test_nothing_anywhere_says_how_to_get_it(machine: Machine) -> None:
    with pytest.raises(RuntimeMissing, match="is not installed; run `takohost install-runtime`"):
        machine.found()


def test_an_override_that_is_unusable_is_refused_and_nothing_else_is_tried(machine: Machine, tmp_path: Path) -> None:
    machine.put_workerd(machine.cached)
    machine.put_parser(machine.cached)
    machine.env["TAKOHOST_WORKERD"] = str(tmp_path / "absent")
    with pytest.raises(RuntimeMissing, match=r"TAKOHOST_WORKERD names .*absent, which does not exist"):
        machine.found()
    machine.env["TAKOHOST_WORKERD"] = str(write_program(tmp_path / "text", b"text"))
    with pytest.raises(NotProgram):
        machine.found()


def test_the_parser_is_taken_from_beside_workerd_before_the_cache(machine: Machine) -> None:
    machine.put_parser(machine.cached)
    beside = machine.put_parser(machine.modules)
    machine.put_workerd(machine.modules)
    assert locate_runtime(machine.env, machine.project).parser == beside


def test_a_parser_of_another_version_is_passed_over(machine: Machine) -> None:
    machine.put_workerd(machine.modules)
    machine.put_parser(machine.modules, "0.0.1")
    cached = machine.put_parser(machine.cached)
    assert locate_runtime(machine.env, machine.project).parser == cached


def test_a_missing_parser_is_told_apart_from_a_missing_workerd(machine: Machine) -> None:
    machine.put_workerd(machine.modules)
    with pytest.raises(RuntimeMissing, match=r"the parser meriyah .* is not installed"):
        machine.found()


def test_a_path_that_leads_to_an_npm_link_is_followed_to_the_program(machine: Machine, tmp_path: Path) -> None:
    machine.put_parser(machine.cached)
    real = write_program(tmp_path / "elsewhere" / "workerd", GOOD)
    machine.on_path.parent.mkdir()
    machine.on_path.symlink_to(real)
    assert machine.found() == real


def test_the_located_runtime_states_its_version(machine: Machine) -> None:
    machine.put_workerd(machine.modules)
    machine.put_parser(machine.modules)
    assert locate_runtime(machine.env, machine.project).version == read_pins().workerd_date
