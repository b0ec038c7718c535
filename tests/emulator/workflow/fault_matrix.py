"""Kills a host at every occasion of every fault point of the engine, for each kind of step and ending.

`python -m tests.emulator.workflow.fault_matrix` prints the matrix: occasions tried by scenario and point.
"""

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from emulator.workflow import surroundings
from host.model.faults import registered
from tests.emulator.workflow.scenarios import SCENARIOS, complaints

AT_START = (surroundings.FENCED, surroundings.RECOVERED)
POINTS = tuple(name for name in registered() if name.startswith("workflow."))
BEFORE_A_COMMIT = (surroundings.STARTED, surroundings.RECORDED)
"""Points at which an effect may have run whose outcome is not durable."""

Run = Callable[[Path, int, str, str | None, int], int]


@contextmanager
def zygote() -> Iterator[Run]:
    """Runs one host in a process of its own to its end; gives the exit status as `subprocess` counts it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.emulator.workflow.victim"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    assert process.stdin is not None and process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    def run_one(folder: Path, boot_number: int, scenario: str, point: str | None, nth: int) -> int:
        stdin.write(json.dumps([str(folder), boot_number, scenario, point, nth]) + "\n")
        stdin.flush()
        return int(stdout.readline())

    yield run_one
    stdin.close()
    process.wait(timeout=10)
    stdout.close()


def occasions(run: Run, folder: Path, scenario: str) -> dict[str, int]:
    """How often an undisturbed run reaches each point; those of start-up are reached in a second boot."""
    if run(folder, 0, scenario, None, 1) != 0:
        raise AssertionError((folder / "crash").read_text())
    wrong = complaints(SCENARIOS[scenario], folder, may_repeat=False)
    assert not wrong, wrong
    reached: dict[str, int] = json.loads((folder / "reached").read_text())
    return {point: 1 if point in AT_START else reached.get(point, 0) for point in POINTS}


def kill_once(run: Run, folder: Path, scenario: str, point: str, nth: int) -> list[str]:
    """Kill at that occasion, go on, and say what is wrong then."""
    boots = 0
    if point in AT_START:
        assert run(folder, boots, scenario, surroundings.INTENDED, 1) == -signal.SIGKILL
        boots += 1
    if run(folder, boots, scenario, point, nth) != -signal.SIGKILL:
        return ["not killed"]
    if run(folder, boots + 1, scenario, None, 1) != 0:
        crash = folder / "crash"
        return [crash.read_text() if crash.exists() else "killed again"]
    return complaints(SCENARIOS[scenario], folder, may_repeat=point in BEFORE_A_COMMIT)


def main() -> int:
    """Print a line a scenario, a column a point; 0 when nothing was wrong."""
    labels = [point.removeprefix("workflow.") for point in POINTS]
    print("kills survived, by scenario and point:")
    for number, label in enumerate(labels, 1):
        print(f"  {number:>2} {label}: {registered()[f'workflow.{label}']}")
    print(f"{'':28}" + "".join(f"{number:>4}" for number in range(1, len(labels) + 1)))
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as place, zygote() as run:
        for scenario in SCENARIOS:
            cells = []
            base = Path(place) / scenario
            (base / "whole").mkdir(parents=True)
            for point, times in occasions(run, base / "whole", scenario).items():
                for nth in range(1, times + 1):
                    folder = base / f"{point}-{nth}"
                    folder.mkdir()
                    wrong += [
                        f"{scenario}, {point} {nth}: {each}" for each in kill_once(run, folder, scenario, point, nth)
                    ]
                cells.append(f"{times or '-':>4}")
            print(f"{scenario:28}" + "".join(cells), flush=True)
    print("\n".join(wrong) if wrong else "every one of them went on as if it had not been killed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
