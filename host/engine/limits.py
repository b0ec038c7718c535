"""The numbers that an operator may set (HA-20)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """`settle_wait_s` is how long an answer waits for its Operation; `running_operations` bounds backend work."""

    max_request_bytes: int = 1024 * 1024
    max_page_size: int = 100
    replay_window_s: int = 86400
    settle_wait_s: float = 0.5
    running_operations: int = 8
