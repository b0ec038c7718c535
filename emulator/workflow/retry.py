"""Retry policies of `step.do`: their canonical text and the delay after each failed attempt (DW-34). Pure."""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

LONGEST_DELAY_S = 43200
_MEMBERS = frozenset({"maxAttempts", "initialDelaySeconds", "backoff", "maxDelaySeconds"})


class Backoff(StrEnum):
    CONSTANT = "constant"
    EXPONENTIAL = "exponential"


class PolicyRefused(ValueError):
    """Not a policy of DW-34."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """`max_attempts` counts attempts, the first one included."""

    max_attempts: int = 1
    initial_delay_s: int = 0
    backoff: Backoff = Backoff.CONSTANT
    max_delay_s: int = LONGEST_DELAY_S

    def delay_after_s(self, failed_attempt: int) -> int | None:
        """Seconds from the failure of attempt k (from 1) to the next; none when it was the last one."""
        if failed_attempt >= self.max_attempts:
            return None
        match self.backoff:
            case Backoff.CONSTANT:
                return min(self.max_delay_s, self.initial_delay_s)
            case Backoff.EXPONENTIAL:
                return min(self.max_delay_s, self.initial_delay_s << (failed_attempt - 1))
            case other:
                assert_never(other)


ONE_ATTEMPT = RetryPolicy()


def _integer(value: object, least: int, most: int, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise PolicyRefused(f"{name} is not an integer from {least} to {most}")
    return value


def parse_policy(text: str | None) -> RetryPolicy:
    """Read the JSON text of a policy; None is the single attempt of a step without one. Raises `PolicyRefused`."""
    if text is None:
        return ONE_ATTEMPT
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PolicyRefused("not JSON") from error
    if not isinstance(found, dict) or not set(found) <= _MEMBERS or "maxAttempts" not in found:
        raise PolicyRefused("not an object with maxAttempts and known members only")
    backoff = found.get("backoff", Backoff.CONSTANT.value)
    if backoff not in tuple(Backoff):
        raise PolicyRefused("backoff is neither constant nor exponential")
    return RetryPolicy(
        max_attempts=_integer(found["maxAttempts"], 1, 100, "maxAttempts"),
        initial_delay_s=_integer(found.get("initialDelaySeconds", 0), 0, LONGEST_DELAY_S, "initialDelaySeconds"),
        backoff=Backoff(backoff),
        max_delay_s=_integer(found.get("maxDelaySeconds", LONGEST_DELAY_S), 0, LONGEST_DELAY_S, "maxDelaySeconds"),
    )
