"""What a person at a terminal sees besides the result: a spinner, colour. Silent when the stream is no terminal."""

import itertools
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TextIO

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FRAME_S = 0.1


class Colour(StrEnum):
    """The SGR codes that are used."""

    RED = "31"
    GREEN = "32"
    YELLOW = "33"
    DIM = "2"
    BOLD = "1"


def paint(text: str, colour: Colour, stream: TextIO | None = None) -> str:
    """`text` in a colour when `stream` (default stdout) is a terminal and NO_COLOR is not set."""
    stream = sys.stdout if stream is None else stream
    if not stream.isatty() or os.environ.get("NO_COLOR"):
        return text
    return f"\x1b[{colour}m{text}\x1b[0m"


@contextmanager
def spinner(text: str, stream: TextIO | None = None) -> Iterator[None]:
    """Show `text` with a turning mark on `stream` (default stderr) while the body runs, and take it away."""
    stream = sys.stderr if stream is None else stream
    if not stream.isatty():
        yield
        return
    done = threading.Event()
    turning = threading.Thread(target=turn, args=(text, stream, done), daemon=True)
    turning.start()
    try:
        yield
    finally:
        done.set()
        turning.join()
        stream.write("\r\x1b[2K")
        stream.flush()


def turn(text: str, stream: TextIO, done: threading.Event) -> None:
    """Draw frames until `done` is set."""
    for frame in itertools.cycle(FRAMES):
        stream.write(f"\r\x1b[2K{frame} {text}")
        stream.flush()
        if done.wait(FRAME_S):
            return
