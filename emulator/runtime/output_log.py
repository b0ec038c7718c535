"""The bounded log of what child processes print: workerd's own lines and app code's `console`. Interprets nothing."""

import asyncio
import contextlib
import os
from pathlib import Path

_READ_BYTES = 65536
_PAUSE_S = 0.01  # per read: a child that only prints costs the host little


class OutputLog:
    """Appends to `path`; beyond `max_bytes` the file becomes `<path>.1`, and the one before that is dropped."""

    def __init__(self, path: Path, max_bytes: int = 1 << 20) -> None:
        self._path = path
        self._max_bytes = max_bytes
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab")

    def write(self, data: bytes) -> None:
        """Append; a full disk loses lines, never the host."""
        with contextlib.suppress(OSError):
            self._file.write(data)
            self._file.flush()
            if self._file.tell() > self._max_bytes:
                self._rotate()

    def open_pipe(self) -> int:
        """A descriptor for a child to print on; close it once the child has it. Reading ends with its last holder."""
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        self._read_from(reading)
        return writing

    def close(self) -> None:
        self._file.close()

    def _read_from(self, descriptor: int) -> None:
        loop = asyncio.get_running_loop()

        def read() -> None:
            data = os.read(descriptor, _READ_BYTES)
            loop.remove_reader(descriptor)
            if not data or self._file.closed:
                os.close(descriptor)
                return
            self.write(data)
            loop.call_later(_PAUSE_S, loop.add_reader, descriptor, read)

        loop.add_reader(descriptor, read)

    def _rotate(self) -> None:
        self._file.close()
        self._path.replace(self._path.with_name(self._path.name + ".1"))
        self._file = self._path.open("ab")
