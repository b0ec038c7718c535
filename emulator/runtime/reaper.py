"""A small process that outlives the host by a moment: when the pipe from the host ends, it kills what is registered.

Run as `python -c "...main()"`. Lines on standard input: `+ <pid> <started>` registers, `- <pid>` forgets.
"""

import contextlib
import os
import signal
import sys

from emulator.runtime.identity import process_started


def main() -> None:
    """Read lines until the host is gone, then kill every registered process that is still the registered one."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    registered: dict[int, str] = {}
    for line in sys.stdin:
        sign, pid, *started = line.rstrip("\n").split(" ", 2)
        if sign == "+":
            registered[int(pid)] = started[0]
        else:
            registered.pop(int(pid), None)
    for child, began in registered.items():
        if process_started(child) == began:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
