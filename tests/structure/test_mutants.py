"""The list of mutants is sound, and the runner does not mistake anything for a kill."""

from pathlib import Path

import pytest

from tests import mutants
from tests.mutants import Mutant, apply_mutant, count_in, read_mutants, select_mutants
from tests.structure.sources import ROOT
from tests.structure.test_requirements import read_titles

ENTRIES = read_mutants(ROOT / "tests" / "mutants.toml")


def test_every_mutant_names_a_requirement_and_one_spot() -> None:
    titles = read_titles()
    assert not [each for each in ENTRIES if each.id not in titles]
    assert not [each for each in ENTRIES if (ROOT / each.file).read_text("utf-8").count(each.old) != 1]
    assert not [each for each in ENTRIES if each.old == each.new]


def test_a_family_or_one_requirement_can_be_chosen() -> None:
    some = [Mutant(name, "f", "o", "n") for name in ("DW-01", "DW-10", "WD-01")]
    assert [each.id for each in select_mutants(some, ["DW"])] == ["DW-01", "DW-10"]
    assert [each.id for each in select_mutants(some, ["DW-01"])] == ["DW-01"]
    assert select_mutants(some, []) == some


def test_a_spot_that_occurs_twice_or_never_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a b a")
    assert apply_mutant(Mutant("DW-01", "f", "a", "c"), tmp_path) == "`old` occurs 2 times in f, not once"
    assert apply_mutant(Mutant("DW-01", "f", "x", "c"), tmp_path) == "`old` occurs 0 times in f, not once"
    assert apply_mutant(Mutant("DW-01", "g", "x", "c"), tmp_path) == "g does not exist"
    assert apply_mutant(Mutant("DW-01", "f", "b", "c"), tmp_path) is None
    assert (tmp_path / "f").read_text() == "a c a"


def test_the_summary_of_pytest_is_read() -> None:
    summary = "...\n2 failed, 11 passed, 1 error in 0.1s"
    assert [count_in(summary, word) for word in ("failed", "passed", "errors?")] == [2, 11, 1]
    assert count_in("", "passed") == 0


@pytest.mark.parametrize(("passed", "said"), [((1, 0), "a test failed"), ((0, 3), "its 3 tests passed")])
def test_only_a_failing_test_kills(passed: tuple[int, int], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutants, "copy_tree", lambda tree: None)
    monkeypatch.setattr(mutants, "apply_mutant", lambda mutant, tree: None)
    monkeypatch.setattr(mutants, "run_marked_tests", lambda requirement, tree: passed)
    outcome = mutants.judge_mutant(Mutant("DW-01", "f", "o", "n"))
    assert (outcome.killed, outcome.why) == (passed[0] > 0, said)


@pytest.mark.parametrize("result", [None, (1, 0), (0, 0)])
def test_failing_hanging_or_absent_tests_of_unbroken_sources_are_a_fault(
    result: tuple[int, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutants, "run_marked_tests", lambda requirement, tree: result)
    assert mutants.fault_unbroken("DW-01")
