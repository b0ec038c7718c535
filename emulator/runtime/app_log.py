"""What Workers say: lines with Worker, Version, instance and context, kept in bounds and handed to whoever follows.

The lines come from isolates of our own kernels and hold no secret value; what else a process prints has no owner and is
none of them. Knows no file and no HTTP.
"""

import asyncio
import json
import re
import secrets
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass

from emulator.runtime.log_tags import TAG_LENGTH, LogTags
from host.model.json import JsonObject
from host.model.time import timestamp

KEPT_LINES = 1000
HOSTS_WORD = "takohost:"
"""What the host says of a Worker among its lines begins with it, and nothing that the Worker says."""
_APPS_WORD = "(app) "
_NOBODYS = b"| "
_LEVELS = frozenset(("debug", "info", "log", "warn", "error"))
_ERROR_OF_APP = re.compile(rb"\bjsg\.|^<Formatting threw \(")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_WITHHELD = b"(the text of app code is not shown)"
_LONGEST_LINE_BYTES = 128 * 1024
_FIELDS = 6


@dataclass(frozen=True, slots=True)
class AppLine:
    """One line: `level` is debug, info, log, warn or error; instance and context are of an execution context."""

    at_ms: int
    worker_name: str | None
    worker_uid: str | None
    version_uid: str | None
    instance_id: str | None
    context_id: str | None
    level: str
    message: str

    def to_json(self) -> JsonObject:
        return {
            "time": timestamp(self.at_ms),
            "level": self.level,
            "workerName": self.worker_name,
            "workerUid": self.worker_uid,
            "versionUid": self.version_uid,
            "instanceId": self.instance_id,
            "contextId": self.context_id,
            "message": self.message,
        }

    def shown(self) -> str:
        """The line as people read it: further lines of a message are indented, and none looks like another's."""
        instance = None if self.instance_id is None else repr(self.instance_id)
        place = " ".join(each for each in (self.version_uid, instance) if each is not None)
        message = _printable(self.message).replace("\n", "\n    ")
        return f"[{place}] {self.level}: {message}"


class AppLog:
    """The last `KEPT_LINES` lines; a follower that is too slow misses some and is told how many.

    A tag of `tags` begins each line of an isolate: it stands for the place that the line names and for no other.
    """

    def __init__(self, now_ms: Callable[[], int], kept: int = KEPT_LINES) -> None:
        self.tags = LogTags()
        self._now_ms = now_ms
        self._names: Mapping[str, str] = {}
        self._kept: deque[AppLine] = deque(maxlen=kept)
        self._taken = 0
        self._is_open = True
        self._more = asyncio.Event()

    def tap(self) -> "LineTap":
        """What the output of one process is passed through."""
        return LineTap(self)

    def name_workers(self, names: Mapping[str, str]) -> None:
        """Uid and name of every Worker, for the lines to come."""
        self._names = names

    def fail(self, worker_uid: str, version_uid: str | None, message: str) -> None:
        """A line of the host about code that could not tell its end itself."""
        self.tell(self._line(worker_uid, version_uid, None, None, "error", message))

    def name_of(self, worker_uid: str) -> str | None:
        """The name of a Worker, None for one that is not known any more."""
        return self._names.get(worker_uid)

    def recent(self) -> tuple[AppLine, ...]:
        return tuple(self._kept)

    async def follow(self) -> AsyncIterator[AppLine | int]:
        """The kept lines and all later ones until the log closes; a number is how many were missed."""
        seen = self._taken - len(self._kept)
        while True:
            oldest = self._taken - len(self._kept)
            if seen < oldest:
                yield oldest - seen
                seen = oldest
            while seen < self._taken:
                at = seen - (self._taken - len(self._kept))
                if at < 0:
                    break
                seen += 1
                yield self._kept[at]
            else:
                if not self._is_open:
                    return
                await self._more.wait()

    def close(self) -> None:
        """End every follower once it has read what is there."""
        self._is_open = False
        self._wake()

    def tell(self, line: AppLine) -> None:
        self._kept.append(line)
        self._taken += 1
        self._wake()

    def read(self, text: bytes) -> AppLine | None:
        """A tagged line as a value, None for anything else."""
        if text[TAG_LENGTH : TAG_LENGTH + 2] != b" [":
            return None
        try:
            fields = json.loads(text[TAG_LENGTH:])
        except (ValueError, RecursionError):
            return None  # cut off where the process printed too much, or none of ours
        if len(fields) != _FIELDS or not all(each is None or isinstance(each, str) for each in fields):
            return None
        worker, version, instance, context, level, message = fields
        if level not in _LEVELS:
            return None
        tag = self.tags.of(worker, version, instance, context)
        if not secrets.compare_digest(tag.encode(), text[:TAG_LENGTH]):
            return None
        own = _APPS_WORD if str(message).startswith(HOSTS_WORD) else ""
        return self._line(worker, version, instance, context, level, f"{own}{message}")

    def _line(
        self,
        worker_uid: str | None,
        version_uid: str | None,
        instance_id: str | None,
        context_id: str | None,
        level: str,
        message: str,
    ) -> AppLine:
        name = None if worker_uid is None else self.name_of(worker_uid)
        return AppLine(self._now_ms(), name, worker_uid, version_uid, instance_id, context_id, level, message)

    def _wake(self) -> None:
        self._more.set()
        self._more = asyncio.Event()


class LineTap:
    """The output of one process: takes the tagged lines out and gives them back as people read them. All others begin
    with "| ": an app that learns how the engine prints may write there what looks like the line of another one.

    When workerd itself tells of an error that app code threw, its text is withheld, as nobody has looked for secrets in
    it: all that follows up to the next line with a tag, for app code may write whatever looks like workerd's own words.
    """

    def __init__(self, log: AppLog) -> None:
        self._log = log
        self._rest = b""
        self._withholds = False

    def pass_on(self, data: bytes) -> bytes:
        """The lines that are complete now, for the file; a longer one than any of ours is not held back."""
        whole, newline, rest = (self._rest + data).rpartition(b"\n")
        if len(rest) > _LONGEST_LINE_BYTES:
            whole, newline, rest = whole + newline + rest, b"", b""
        self._rest = rest
        lines = whole.split(b"\n") if whole or newline else []
        return b"\n".join(map(self._shown, lines)) + newline

    def end(self) -> bytes:
        """What is left when the process is gone."""
        rest, self._rest = self._rest, b""
        return self._shown(rest)

    def _shown(self, text: bytes) -> bytes:
        line = self._log.read(text)
        if line is None:
            return _nobodys(self._without_errors(text))
        self._withholds = False
        self._log.tell(line)
        return line.shown().encode("utf-8", "replace")

    def _without_errors(self, text: bytes) -> bytes:
        """A line of workerd, without what app code put into it."""
        if self._withholds:
            return _WITHHELD
        found = _ERROR_OF_APP.search(text)
        if found is None:
            return text
        self._withholds = True
        return text[: found.end()] + _WITHHELD


def _nobodys(text: bytes) -> bytes:
    return text and _NOBODYS + _printable(text.decode("utf-8", "replace")).encode()


def _printable(text: str) -> str:
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
