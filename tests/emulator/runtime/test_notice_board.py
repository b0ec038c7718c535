"""How a notice about an instance reads in the host's log and among the lines of the Worker."""

import json
from pathlib import Path

import pytest

from emulator.contexts import Notice
from emulator.runtime.app_log import AppLog
from emulator.runtime.notice_board import NoticeBoard
from emulator.runtime.output_log import OutputLog
from host.model.time import ControlledClock
from tests.emulator.runtime.conftest import NOW_MS


def post(folder: Path, notice: Notice) -> dict[str, object]:
    """The line that `/v1/logs` has then."""
    clock = ControlledClock.frozen(NOW_MS)
    words = AppLog(clock.now_ms)
    words.name_workers({"w1": "shop"})
    output = OutputLog(folder / "workers.log", words)
    NoticeBoard(words, output, clock).post(notice)
    output.close()
    (line,) = words.recent()
    return dict(json.loads(json.dumps(line.to_json())))


@pytest.mark.req("DW-39")
def test_a_notice_names_worker_version_instance_and_context_in_both_logs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    line = post(tmp_path, Notice("w1", "v1", "a\nb", "c1", "it spun"))
    text = "Worker shop (w1), Version v1, instance 'a\\nb', context c1: it spun"
    assert caplog.messages == [text]
    assert line | {"time": ""} == {
        "time": "",
        "level": "error",
        "workerName": "shop",
        "workerUid": "w1",
        "versionUid": "v1",
        "instanceId": "a\nb",
        "contextId": "c1",
        "message": f"takohost: {text}",
    }
    assert (tmp_path / "workers.log").read_text() == f"[v1 'a\\nb'] error: takohost: {text}\n"


@pytest.mark.req("DW-33")
def test_a_notice_leaves_out_what_there_is_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    line = post(tmp_path, Notice("w2", None, "i", None, "it is too old"))
    assert caplog.messages == ["Worker w2, instance 'i': it is too old"]
    assert (line["workerName"], line["versionUid"], line["contextId"]) == (None, None, None)
    assert (tmp_path / "workers.log").read_text().startswith("['i'] error: takohost: Worker w2")
