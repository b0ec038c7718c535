"""Breaks the sources on purpose, one spot at a time, and expects a test marked with the requirement to fail.

`python -m tests.mutants [DW | DW-34 ...]` works on copies in a temporary directory; `tests/mutants.toml` holds the
spots. A mutant survives, and the run fails, when every test of its requirement passes all the same. It counts as
surviving, too, when no test has the mark, one fails without it, or its `old` text does not occur exactly once.
"""

import contextlib
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


@dataclass(frozen=True, slots=True)
class Mutant:
    """One broken spot: in `file`, the only occurrence of `old` becomes `new`; a test of requirement `id` must fail."""

    id: str
    file: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a mutant ended: `killed`, or what is wrong in `why`."""

    killed: bool
    why: str


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


def run_marked_tests(requirement: str, tree: Path) -> tuple[int, int] | None:
    """(failed, passed) of the tests marked with `requirement`, up to the first failure; None when they hang."""
    quoting = [path for path in sorted((tree / "tests").rglob("test_*.py")) if quotes(path, requirement)]
    files = [str(path) for path in sorted(quoting, key=starts_processes)]
    if not files:
        return 0, 0
    options = ["-q", "-x", "-p", "no:cacheprovider", "-m", "not long and not bench", "--req", requirement]
    command = [sys.executable, "-m", "pytest", *options, *files]
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(tree)}
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
        told = output.read()
    return count_in(told, "failed") + count_in(told, "errors?"), count_in(told, "passed")


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


def judge_mutant(mutant: Mutant) -> Outcome:
    """Copy, break, test."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as name:
        tree = Path(name)
        copy_tree(tree)
        wrong = apply_mutant(mutant, tree)
        if wrong:
            return Outcome(False, wrong)
        result = run_marked_tests(mutant.id, tree)
    if result is None:
        return Outcome(True, f"hung for {TIMEOUT_S:.0f} s")
    failed, passed = result
    return Outcome(failed > 0, "a test failed" if failed else f"its {passed} tests passed")


class Judge:
    """Judges mutants from several threads; the tests of each requirement run on the unbroken sources only once."""

    def __init__(self) -> None:
        self._guard = Lock()
        self._locks: dict[str, Lock] = {}
        self._faults: dict[str, str | None] = {}

    def judge(self, mutant: Mutant) -> Outcome:
        """Whether a test fails for the mutant, and for it alone."""
        fault = self._fault_unbroken(mutant.id)
        return Outcome(False, fault) if fault else judge_mutant(mutant)

    def _fault_unbroken(self, requirement: str) -> str | None:
        with self._guard:
            lock = self._locks.setdefault(requirement, Lock())
        with lock:
            if requirement not in self._faults:
                self._faults[requirement] = fault_unbroken(requirement)
            return self._faults[requirement]


def fault_unbroken(requirement: str) -> str | None:
    """What is wrong with a requirement's tests on the unbroken sources, or None when they run and pass."""
    result = run_marked_tests(requirement, ROOT)
    if result is None or result[0]:
        return f"a test of {requirement} fails on the unbroken sources"
    return None if result[1] else f"no test is marked with {requirement}"


def main(wanted: Sequence[str]) -> int:
    """Judge the wanted mutants, print a line each; 0 when every one was killed."""
    chosen = select_mutants(read_mutants(ROOT / "tests" / "mutants.toml"), wanted)
    if not chosen:
        print(f"no mutant matches {' '.join(wanted)}" if wanted else "there are no mutants", file=sys.stderr)
        return 2
    survived = 0
    with ThreadPoolExecutor(os.cpu_count()) as judges:
        for mutant, outcome in zip(chosen, judges.map(Judge().judge, chosen), strict=True):
            survived += not outcome.killed
            print(
                f"{'killed  ' if outcome.killed else 'SURVIVED'} {mutant.id}  {mutant.file}: {outcome.why}", flush=True
            )
    print(f"{len(chosen) - survived} of {len(chosen)} killed")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
