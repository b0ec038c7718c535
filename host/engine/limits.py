"""What an operator may set: numbers, and which optional parts of the Host API are offered (HA-20)."""

from dataclasses import dataclass

from host.model.time import LATEST_MS


@dataclass(frozen=True, slots=True)
class Limits:
    """`settle_wait_s` is how long an answer waits for its Operation; `running_operations` bounds backend work.

    A principal has at most `unfinished_operations` of them at a time: a new one beyond that is `rate_limited` (HA-14).
    A private value is kept for at most `private_value_s` of contract time, a cursor is good for `cursor_window_s`.
    """

    max_request_bytes: int = 1024 * 1024
    max_page_size: int = 100
    replay_window_s: int = 86400
    settle_wait_s: float = 0.5
    running_operations: int = 8
    unfinished_operations: int = 1000
    private_value_s: int = 3600
    cursor_window_s: int = 86400

    def retained_until(self, at_ms: int) -> int:
        """Until when an Operation is kept that is accepted or ends at `at_ms` (HA-54); the calendar has an end."""
        return min(at_ms + self.replay_window_s * 1000, LATEST_MS)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Optional parts; switching one off shortens no retention and changes no Form's meaning (HA-55)."""

    previews: bool = True
    private_inputs: bool = True


EVERYTHING = Capabilities()
"""All that is built."""
