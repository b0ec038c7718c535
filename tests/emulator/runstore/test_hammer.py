"""Two processes on one file: every answer fits one order of the operations, none is lost, no end is undone (RS-70)."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.emulator.runstore.model import Event, Unexplained, explain, reopenings
from tests.structure.sources import ROOT

PROCESSES = 2
LEAST_DONE = 3
"""Of each kind of answer: fewer, and the history shows nothing. How often a rival comes between is up to the machine."""


def hammer(tmp_path: Path, operations: int, seed: int) -> list[Event]:
    """Run the processes side by side; returns what their clients saw."""
    file, logs = tmp_path / "hammered.sqlite", [tmp_path / f"{number}.log" for number in range(PROCESSES)]
    script = [sys.executable, "-m", "tests.emulator.runstore.hammer"]
    processes = [
        subprocess.Popen(
            [*script, file, log, str(number), str(operations // PROCESSES), str(seed)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        for number, log in enumerate(logs)
    ]
    assert [process.wait() for process in processes] == [0] * PROCESSES
    return [read_event(line) for log in logs for line in log.read_text("utf-8").splitlines()]


def read_event(line: str) -> Event:
    client, row, kind, texts, answer, called_ns, answered_ns = json.loads(line)
    return Event(client, row, kind, tuple(texts), answer, called_ns, answered_ns)


def judge(events: list[Event]) -> None:
    rows = {event.row for event in events}
    for row in rows:
        assert not reopenings(explain([event for event in events if event.row == row]))
    for kind, answer in (("patch", "true"), ("patch", "false"), ("replace", "true"), ("persist", "settled")):
        done = sum((event.kind, event.answer) == (kind, answer) for event in events)
        assert done >= LEAST_DONE, f"only {done} times {kind} {answer}: the history shows too little"


@pytest.mark.req("RS-70", "RS-40", "RS-30", "RS-60")
def test_two_processes_lose_no_update_and_reopen_no_end(tmp_path: Path) -> None:
    judge(hammer(tmp_path, 2_000, 1))


@pytest.mark.long
@pytest.mark.req("RS-70")
def test_two_processes_lose_no_update_in_twenty_thousand_operations(tmp_path: Path) -> None:
    judge(hammer(tmp_path, 20_000, 2))


A, B = '{"status":"s","timestamp":1,"lifecycle":{"revision":1}}', '{"revision":2}'
PATCH = ("s", "1", '{"revision":1}', B, "u")


def event(client: int, kind: str, texts: tuple[str, ...], answer: str, called_ns: int, answered_ns: int) -> Event:
    return Event(client, 0, kind, texts, answer, called_ns, answered_ns)  # type: ignore[arg-type]


def test_the_checker_finds_a_lost_update_and_a_stale_read() -> None:
    admitted = event(0, "admit", (A, "t"), "done", 0, 1)
    both = [event(n, "patch", PATCH, "true", 2, 9) for n in (0, 1)]
    with pytest.raises(Unexplained, match="none of these fits"):
        explain([admitted, *both])
    assert len(explain([admitted, both[0], replace(both[1], answer="false")])) == 3
    stale = event(1, "read", (), f"{A}\nt", 10, 11)
    with pytest.raises(Unexplained):
        explain([admitted, both[0], stale])
    assert [e.kind for e, _ in explain([admitted, both[0], replace(stale, called_ns=3)])] == ["admit", "read", "patch"]


def test_the_checker_finds_a_settled_row_reopened() -> None:
    settled, open_again = ('{"lifecycle":{"terminal":1}}', "t"), ('{"lifecycle":{}}', "u")
    way = [(event(0, "persist", settled, "done", 0, 1), settled), (event(1, "persist", (), "done", 2, 3), open_again)]
    assert reopenings(way) == [way[1][0]]
    assert reopenings([way[0], (event(1, "replace", (), "true", 2, 3), open_again)]) == []
