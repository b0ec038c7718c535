"""Where a ready file may be written, and whose file is removed at the end."""

import json
import os
import stat
from pathlib import Path

import pytest

from emulator.compose.errors import SurroundingsWrong
from emulator.compose.ready import ReadyReport, check_place, remove_earlier, remove_ready_file, write_ready_file
from emulator.compose.state import StateDirectory

HERE = Path("/x")
REPORT = ReadyReport(os.getpid(), "https://a", "http://b", "https://b", "http://c", HERE, HERE, HERE, "SQLite")


@pytest.mark.parametrize("content", ["", "notes", "[]", "{}", '{"pid": 7}', '{"pid": '])
def test_a_file_of_somebody_else_is_refused_and_kept(tmp_path: Path, content: str) -> None:
    path = tmp_path / "ready.json"
    path.write_text(content)
    with pytest.raises(SurroundingsWrong, match="no ready file"):
        check_place(path)
    assert path.read_text() == content
    assert list(tmp_path.iterdir()) == [path]


def test_a_pipe_is_refused_without_waiting_for_its_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "ready.json")
    with pytest.raises(SurroundingsWrong, match="no ready file"):
        check_place(tmp_path / "ready.json")


def test_a_directory_that_takes_no_file_is_refused(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    if os.access(closed, os.W_OK):  # root writes everywhere but there
        closed = Path("/proc")
    with pytest.raises(SurroundingsWrong, match=r"cannot write the ready file .*closed|/proc"):
        check_place(closed / "ready.json")


def test_the_file_of_an_earlier_host_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "ready.json"
    path.write_text(json.dumps({**REPORT.document(), "pid": 1}))
    check_place(path)
    write_ready_file(path, REPORT)
    assert json.loads(path.read_text())["pid"] == os.getpid()
    assert stat.S_ISREG(path.stat().st_mode)
    remove_ready_file(path)
    assert list(tmp_path.iterdir()) == []


def test_the_file_of_an_earlier_host_can_be_removed_and_none_need_be_there(tmp_path: Path) -> None:
    path = tmp_path / "ready.json"
    path.write_text(json.dumps({**REPORT.document(), "pid": 1}))
    for _ in range(2):
        check_place(path)
        remove_earlier(path)
        assert list(tmp_path.iterdir()) == []


def test_only_the_file_of_the_host_that_still_runs_is_left_for_the_time_of_a_start(tmp_path: Path) -> None:
    path = tmp_path / "ready.json"
    state = StateDirectory.claim(tmp_path / "state")
    document = {**REPORT.document(), "stateDir": str(state.path)}
    for pid, is_held, is_left in ((os.getpid(), True, True), (1, True, False), (os.getpid(), False, False)):
        path.write_text(json.dumps({**document, "pid": pid}))
        if not is_held:
            state.release()
        remove_earlier(path)
        assert path.exists() is is_left, pid
    assert not path.exists()


def test_the_file_that_another_host_wrote_meanwhile_stays(tmp_path: Path) -> None:
    path = tmp_path / "ready.json"
    path.write_text(json.dumps({**REPORT.document(), "pid": 1}))
    remove_ready_file(path)
    assert path.exists()
    path.unlink()
    remove_ready_file(path)
