"""The list of mutants is sound, and the runner does not mistake anything for a kill."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import mutants
from tests.mutants import Judge, Killers, Mutant, Tally, apply_mutant, count_in, read_mutants, select_mutants, tally
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


def test_the_first_failing_test_is_read() -> None:
    output = "..\nFAILED tests/a.py::test_it[a loop] - AssertionError: FAILED x - y\n1 failed, 2 passed in 0.1s"
    assert tally(output) == Tally(1, 2, "tests/a.py::test_it[a loop]")
    assert tally("ERROR tests/a.py - ImportError\n1 error in 0.1s") == Tally(1, 0, None)
    assert tally("3 passed in 0.1s") == Tally(0, 3, None)


MUTANT = Mutant("DW-01", "f", "o", "n")


class Runs:
    """Stands in for pytest: what it says of the broken and the unbroken sources, and what it was asked to run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, broken: Tally | None, unbroken: Tally | None) -> None:
        self.asked: list[tuple[bool, tuple[str, ...]]] = []
        self._results = {True: unbroken, False: broken}
        monkeypatch.setattr(mutants, "copy_tree", lambda tree: None)
        monkeypatch.setattr(mutants, "apply_mutant", lambda mutant, tree: None)
        monkeypatch.setattr(mutants, "run_marked_tests", self._run)

    def _run(self, requirement: str, tree: Path, nodes: Sequence[str] = ()) -> Tally | None:
        self.asked.append((tree == ROOT, tuple(nodes)))
        return self._results[tree == ROOT]


def judge(path: Path) -> mutants.Outcome:
    return Judge(Killers(path / "killers")).judge(MUTANT)


def test_only_a_failing_test_kills(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Runs(monkeypatch, Tally(0, 3), Tally(0, 3))
    assert judge(tmp_path) == mutants.Outcome(False, "its 3 tests passed")
    Runs(monkeypatch, Tally(1, 0, "t::a"), Tally(0, 1))
    assert judge(tmp_path) == mutants.Outcome(True, "t::a", "t::a")
    Runs(monkeypatch, None, Tally(0, 1))
    assert judge(tmp_path).killed


@pytest.mark.parametrize("unbroken", [None, Tally(1, 0, "t::a"), Tally(0, 0)])
@pytest.mark.parametrize("broken", [Tally(1, 0, "t::a"), Tally(1, 0), None])
def test_what_fails_hangs_or_is_absent_on_the_unbroken_sources_kills_nothing(
    unbroken: Tally | None, broken: Tally | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Runs(monkeypatch, broken, unbroken)
    assert not judge(tmp_path).killed
    assert not (tmp_path / "killers").exists()


def test_the_killer_of_the_last_time_is_tried_first_and_no_more_than_a_hint(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    runs = Runs(monkeypatch, Tally(1, 5, "t::a"), Tally(0, 1))
    assert judge(tmp_path).killed
    assert judge(tmp_path).killed
    assert runs.asked == [(False, ()), (True, ("t::a",)), (False, ("t::a",)), (True, ("t::a",))]
    runs = Runs(monkeypatch, Tally(0, 1), Tally(0, 1))
    assert not judge(tmp_path).killed
    assert runs.asked == [(False, ("t::a",)), (False, ())]
