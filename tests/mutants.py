"""Breaks the sources on purpose, one spot at a time, and expects a test marked with the requirement to fail.

`python -m tests.mutants [DW | DW-34 ...]` works on copies in a temporary directory; `tests/mutants.toml` holds the
spots. A mutant survives, and the run fails, when every test of its requirement passes all the same. It counts as
surviving, too, when no test has the mark, the one that fails does so without it, or its `old` text does not occur exactly
once. Which test killed it is kept in `.mutants.json`: that one is tried first the next time.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

ROOT = Path(__file__).parents[1]
COPIED = ("host", "emulator", "tests", "docs", "fixtures", "pyproject.toml", "package.json", "package-lock.json")
TIMEOUT_S = 300.0
TIDY = shutil.ignore_patterns("__pycache__", "node_modules")
KILLERS = ROOT / ".mutants.json"


@dataclass(frozen=True, slots=True)
class Mutant:
    """One broken spot: in `file`, the only occurrence of `old` becomes `new`; a test of requirement `id` must fail."""

    id: str
    file: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a mutant ended: `killed`, or what is wrong in `why`; the node id of the test that killed it, if one did."""

    killed: bool
    why: str
    killer: str | None = None


@dataclass(frozen=True, slots=True)
class Tally:
    """What pytest's output says: how many tests failed and passed, and the node id of the first that failed."""

    failed: int
    passed: int
    failing: str | None = None


def read_mutants(path: Path) -> tuple[Mutant, ...]:
    """The mutants of a TOML file, in its order; an entry with other keys raises TypeError."""
    return tuple(Mutant(**entry) for entry in tomllib.loads(path.read_text("utf-8")).get("mutant", []))


def select_mutants(mutants: Iterable[Mutant], wanted: Sequence[str]) -> list[Mutant]:
    """Those whose id is, or begins with, one of `wanted` (`DW` takes every `DW-..`); all when it is empty."""
    return [each for each in mutants if not wanted or any(f"{each.id}-".startswith(f"{want}-") for want in wanted)]


def copy_tree(target: Path) -> None:
    """A copy of what the tests need; the original is never touched."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=TIDY)
        elif source.exists():
            shutil.copyfile(source, target / name)


def apply_mutant(mutant: Mutant, tree: Path) -> str | None:
    """Break the copy; returns what is wrong with the entry, or None."""
    path = tree / mutant.file
    if not path.is_file():
        return f"{mutant.file} does not exist"
    text = path.read_text("utf-8")
    if text.count(mutant.old) != 1:
        return f"`old` occurs {text.count(mutant.old)} times in {mutant.file}, not once"
    path.write_text(text.replace(mutant.old, mutant.new), "utf-8")
    return None


def run_marked_tests(requirement: str, tree: Path, nodes: Sequence[str] = ()) -> Tally | None:
    """Run `nodes`, or all tests, as far as they are marked with `requirement`, up to the first failure; None when they
    hang."""
    quoting = [path for path in sorted((tree / "tests").rglob("test_*.py")) if quotes(path, requirement)]
    chosen = nodes or [str(path.relative_to(tree)) for path in sorted(quoting, key=starts_processes)]
    if not chosen:
        return Tally(0, 0)
    options = ["-q", "-x", "-p", "no:cacheprovider", "-m", "not long and not bench", "--req", requirement]
    command = [sys.executable, "-m", "pytest", *options, *chosen]
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(tree), "COLUMNS": "9999"}
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            command, cwd=tree, env=env, stdout=output, stderr=subprocess.DEVNULL, start_new_session=True
        )
        try:
            process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # whatever broken code has left running, too
            process.wait()
        output.seek(0)
        return tally(output.read())


def tally(output: str) -> Tally:
    """What pytest said, in figures."""
    failing = re.search(r"^FAILED (.+?)(?: - |$)", output, re.MULTILINE)
    failed = count_in(output, "failed") + count_in(output, "errors?")
    return Tally(failed, count_in(output, "passed"), failing and failing[1])


def quotes(path: Path, requirement: str) -> bool:
    """Whether a test file may have tests of the requirement; spares pytest the collection of the others."""
    return f'"{requirement}"' in path.read_text("utf-8")


def starts_processes(path: Path) -> bool:
    """Whether the tests of a file need workerd or kill hosts: these come after the quick ones."""
    text = path.read_text("utf-8")
    return "workerd" in text or "zygote" in text or "runtime" in path.parts


def count_in(output: str, word: str) -> int:
    """The number that pytest's summary gives before `word`."""
    found = re.findall(rf"(\d+) {word}\b", output.strip().splitlines()[-1] if output.strip() else "")
    return int(found[-1]) if found else 0


def judge_mutant(mutant: Mutant, killer: str | None = None) -> Outcome:
    """Copy, break, test: first with the test that killed it before."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as name:
        tree = Path(name)
        copy_tree(tree)
        wrong = apply_mutant(mutant, tree)
        if wrong:
            return Outcome(False, wrong)
        result = None if killer is None else run_marked_tests(mutant.id, tree, [killer])
        if result is None or not result.failing:
            result = run_marked_tests(mutant.id, tree)
    if result is None:
        return Outcome(True, f"hung for {TIMEOUT_S:.0f} s")
    if not result.failed:
        return Outcome(False, f"its {result.passed} tests passed")
    return Outcome(True, result.failing or "a test failed", result.failing)


class Killers:
    """Which test killed a mutant the last time, in a file: only ever a hint."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._guard = Lock()
        try:
            self._found: dict[str, str] = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError):
            self._found = {}

    def of(self, mutant: Mutant) -> str | None:
        return self._found.get(self._key(mutant))

    def note(self, mutant: Mutant, killer: str) -> None:
        with self._guard:
            self._found[self._key(mutant)] = killer
            self._path.write_text(json.dumps(self._found, indent=0), "utf-8")

    def _key(self, mutant: Mutant) -> str:
        return "\n".join((mutant.id, mutant.file, mutant.old, mutant.new))


class Judge:
    """Judges mutants from several threads; what killed one is tried on the unbroken sources, and only once."""

    def __init__(self, killers: Killers) -> None:
        self._killers = killers
        self._guard = Lock()
        self._locks: dict[tuple[str, str | None], Lock] = {}
        self._faults: dict[tuple[str, str | None], str | None] = {}

    def judge(self, mutant: Mutant) -> Outcome:
        """Whether a test fails for the mutant, and for it alone."""
        outcome = judge_mutant(mutant, self._killers.of(mutant))
        if not outcome.killed:
            return outcome
        fault = self._fault_unbroken(mutant.id, outcome.killer)
        if fault:
            return Outcome(False, fault)
        if outcome.killer is not None:
            self._killers.note(mutant, outcome.killer)
        return outcome

    def _fault_unbroken(self, requirement: str, killer: str | None) -> str | None:
        asked = (requirement, killer)
        with self._guard:
            lock = self._locks.setdefault(asked, Lock())
        with lock:
            if asked not in self._faults:
                self._faults[asked] = fault_unbroken(requirement, killer)
            return self._faults[asked]


def fault_unbroken(requirement: str, killer: str | None = None) -> str | None:
    """What is wrong with a test, or with all of a requirement, on the unbroken sources; None when they run and pass."""
    result = run_marked_tests(requirement, ROOT, [] if killer is None else [killer])
    if result is None or result.failed:
        return f"{killer or f'a test of {requirement}'} fails on the unbroken sources"
    return None if result.passed else f"no test is marked with {requirement}"


def main(wanted: Sequence[str]) -> int:
    """Judge the wanted mutants, print a line each; 0 when every one was killed."""
    chosen = select_mutants(read_mutants(ROOT / "tests" / "mutants.toml"), wanted)
    if not chosen:
        print(f"no mutant matches {' '.join(wanted)}" if wanted else "there are no mutants", file=sys.stderr)
        return 2
    survived = 0
    with ThreadPoolExecutor(os.cpu_count()) as judges:
        for mutant, outcome in zip(chosen, judges.map(Judge(Killers(KILLERS)).judge, chosen), strict=True):
            survived += not outcome.killed
            print(
                f"{'killed  ' if outcome.killed else 'SURVIVED'} {mutant.id}  {mutant.file}: {outcome.why}", flush=True
            )
    print(f"{len(chosen) - survived} of {len(chosen)} killed")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
