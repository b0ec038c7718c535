"""What a front bears from its clients. All of it is liveness: real time, never contract time."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FrontLimits:
    """Bounds of one listener.

    `head_bytes` counts request line and headers; `head_s` runs from the first byte of a head to its end, `idle_s`
    between requests, `body_s` from the end of a head to the end of its body, `write_s` while the client takes nothing.
    After an answer that came before the end of its request, the rest is read and thrown away for `linger_s`, so that
    the answer is not lost in a reset connection; a refusal of a head waits only until nothing has come for `pause_s`.
    `drain_s` is what requests get to finish when the listener stops.
    """

    head_bytes: int = 16 * 1024
    head_fields: int = 100
    head_s: float = 10.0
    body_s: float = 30.0
    idle_s: float = 60.0
    write_s: float = 30.0
    linger_s: float = 3.0
    pause_s: float = 0.25
    handshake_s: float = 10.0
    drain_s: float = 3.0
    connections: int = 1000
