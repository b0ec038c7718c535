"""A disk that is full: which failures say so, and what people are told. Knows neither files nor a database."""

import errno

NO_ROOM = "the host's disk is full or fails"
_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class NoRoom(Exception):
    """A mark of exceptions that mean that nothing was written, for want of room or because the disk fails."""


def lacks_room(error: BaseException) -> bool:
    """Whether the same may succeed once there is room again, and nobody has made a mistake."""
    return isinstance(error, NoRoom) or (isinstance(error, OSError) and error.errno in _ERRNOS)
