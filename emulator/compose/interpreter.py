"""How the Python interpreter of a host runs: how soon its threads take turns, what its collections look at.

Settings of the process as a whole, so they are made once, by whoever owns the process. Knows no part of the host.
"""

import gc
import sys

SWITCH_INTERVAL_S = 0.0005
"""Python's own 5 ms are what the writer's thread may wait after each call of SQLite while the event loop is busy."""


def share_turns() -> None:
    """Let a thread that has work wait only a moment for another that computes: a mark is written within it (DW-35)."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)


def keep_what_is_there() -> None:
    """What a start made stays: later collections, which stop every thread, need not look at it."""
    gc.freeze()
    gc.enable()
