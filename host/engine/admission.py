"""Whether one more Operation may be accepted now: not while the host stops, nor beyond a principal's bound (HA-14).

Asked inside the acceptance transaction, after the key: what is refused here has left nothing behind, and a replay of
what was accepted is never refused.
"""

from host.engine.limits import Limits
from host.model.errors import CallerError, ErrorCode, HostError
from host.sqlite import Transaction
from host.store.operations import has_unfinished


class Admission:
    """Open until `close`."""

    def __init__(self, limits: Limits) -> None:
        self._most = limits.unfinished_operations
        self._is_closed = False

    def close(self) -> None:
        """Accept nothing more: another process will."""
        self._is_closed = True

    def check(self, tx: Transaction, owner: str) -> None:
        """Raises `HostError` `temporarily_unavailable` or `CallerError` `rate_limited`; both are worth a retry."""
        if self._is_closed:
            raise HostError(ErrorCode.TEMPORARILY_UNAVAILABLE, "the host is stopping and accepts nothing more")
        if has_unfinished(tx, owner, self._most):
            detail = f"{self._most} Operations of this principal are unfinished: wait until some of them have ended"
            raise CallerError(ErrorCode.RATE_LIMITED, detail)
