"""The bounded log of what child processes print: workerd's own lines and app code's `console`. Knows no line."""

import asyncio
import contextlib
import os
from pathlib import Path

from emulator.runtime.app_log import AppLine, AppLog
from emulator.runtime.platform import widen_pipe

_READ_BYTES = 1 << 20
_PAUSE_S = 0.002  # per read: a child that only prints costs the host little
_RATION_BYTES = 1 << 20
_RATION_S = 1.0
_DROPPING = b"\n[takohost: more than 1 MiB in a second, the rest is dropped]\n"


class _Ration:
    """What is kept of a child that prints without end. A child is never held up by its log: code that prints in a
    loop would hold up whatever else its process serves, without being seen to spin."""

    def __init__(self) -> None:
        self._since_s = 0.0
        self._left = _RATION_BYTES
        self._is_told = False

    def of(self, data: bytes, now_s: float) -> bytes:
        """The part of `data` to keep."""
        if now_s - self._since_s >= _RATION_S:
            self._since_s, self._left, self._is_told = now_s, _RATION_BYTES, False
        kept = data[: self._left]
        self._left -= len(kept)
        if len(kept) == len(data) or self._is_told:
            return kept
        self._is_told = True
        return kept + _DROPPING


class OutputLog:
    """Appends to `path`; lines of Workers go to `said` too. Beyond `max_bytes` the file becomes `<path>.1`, and the one
    before that is dropped."""

    def __init__(self, path: Path, said: AppLog | None = None, max_bytes: int = 1 << 20) -> None:
        self._path = path
        self._said = said or AppLog(lambda: 0)
        self._max_bytes = max_bytes
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab", buffering=0)
        self._is_torn = False

    def write(self, data: bytes) -> None:
        """Append; a full disk loses lines, never the host. What follows a line that was cut short begins a new one."""
        with contextlib.suppress(OSError):
            whole = b"\n" + data if self._is_torn else data
            self._is_torn = self._file.write(whole) != len(whole)
            if self._file.tell() > self._max_bytes:
                self._rotate()

    def tell(self, line: AppLine) -> None:
        """A line of the host's own about a Worker, beside those that Workers print."""
        self._said.tell(line)
        self.write(f"{line.shown()}\n".encode("utf-8", "replace"))

    def open_pipe(self) -> int:
        """A descriptor for a child to print on; close it once the child has it. Reading ends with its last holder."""
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        widen_pipe(reading, _READ_BYTES)
        self._read_from(reading)
        return writing

    def close(self) -> None:
        self._file.close()

    def _read_from(self, descriptor: int) -> None:
        loop = asyncio.get_running_loop()
        ration = _Ration()
        tap = self._said.tap()

        def read() -> None:
            data = os.read(descriptor, _READ_BYTES)
            loop.remove_reader(descriptor)
            if not data or self._file.closed:
                os.close(descriptor)
                if not self._file.closed:
                    self.write(tap.end())
                return
            self.write(tap.pass_on(ration.of(data, loop.time())))
            loop.call_later(_PAUSE_S, loop.add_reader, descriptor, read)

        loop.add_reader(descriptor, read)

    def _rotate(self) -> None:
        """Without room for a new file the old one is written on, under its new name, until there is."""
        with contextlib.suppress(FileNotFoundError):
            self._path.replace(self._path.with_name(self._path.name + ".1"))
        fresh = self._path.open("ab", buffering=0)
        self._file.close()
        self._file = fresh
