"""Brings notices about instances before people: in the host's log, and among the lines of the Worker's own code.

Knows neither histories nor processes.
"""

import logging

from emulator.contexts import Notice
from emulator.runtime.app_log import AppLine, AppLog
from emulator.runtime.output_log import OutputLog
from host.model.time import Clock

_LOG = logging.getLogger(__name__)


class NoticeBoard:
    """`words` knows the names of Workers, `output` takes their lines."""

    def __init__(self, words: AppLog, output: OutputLog, clock: Clock) -> None:
        self._words = words
        self._output = output
        self._clock = clock

    def post(self, notice: Notice) -> None:
        """A line in either log; both name Worker, Version, instance and context and give the sentence alone."""
        name = self._words.name_of(notice.worker_uid)
        text = f"{_place(notice, name)}: {notice.sentence}"
        _LOG.warning("%s", text)
        where = (notice.worker_uid, notice.version_uid, notice.instance_id, notice.context_id)
        self._output.tell(AppLine(self._clock.now_ms(), name, *where, "error", f"takohost: {text}"))


def _place(notice: Notice, name: str | None) -> str:
    worker = notice.worker_uid if name is None else f"{name} ({notice.worker_uid})"
    parts = [f"Worker {worker}"]
    if notice.version_uid is not None:
        parts.append(f"Version {notice.version_uid}")
    parts.append(f"instance {notice.instance_id!r}")
    if notice.context_id is not None:
        parts.append(f"context {notice.context_id}")
    return ", ".join(parts)
