"""What the engine does while the store has no room: it starts no context, and tries again after a rest.

The rest grows when there is room for a start and none for what comes of it: else effects would be done over and over.
Nothing ends for want of room: code that cannot be answered is stopped, and its instance is replayed later (DW-39).
Whose write it was that failed is not known here.
"""

import logging

from host.model.room import lacks_room
from host.model.time import RealTime

logger = logging.getLogger("takohost.workflow")

FIRST_REST_S = 1.0
LONGEST_REST_S = 32.0
_FORGET_AFTER_S = 60.0


class Shortage:
    """One for an engine. Two lines of log for a shortage, however many writes fail in it."""

    def __init__(self, real_time: RealTime) -> None:
        self._real_time = real_time
        self._rest_s = FIRST_REST_S
        self._ended_s = float("-inf")
        self._has_failed = False
        self._is_on = False

    @property
    def is_on(self) -> bool:
        """Whether a write has failed since the last rest."""
        return self._has_failed

    def note(self, error: BaseException) -> bool:
        """Whether the error is one of this kind; nothing else need be said of it then."""
        if not lacks_room(error):
            return False
        self._has_failed = True
        if not self._is_on:
            self._is_on = True
            logger.warning("no context is started for a while: there is no room to record it: %s", error)
        return True

    async def rest(self) -> None:
        """Return at once without a shortage, else once no write has failed for a rest."""
        if not self._has_failed:
            return
        is_next = self._real_time.monotonic_s() - self._ended_s <= _FORGET_AFTER_S
        rest_s = self._rest_s = min(self._rest_s * 2, LONGEST_REST_S) if is_next else FIRST_REST_S
        while self._has_failed:
            self._has_failed = False
            await self._real_time.sleep_s(rest_s)
            rest_s = FIRST_REST_S  # writes that are repeated tell by themselves when there is room
        self._ended_s = self._real_time.monotonic_s()
        self._is_on = False
        logger.warning("contexts are started again")
