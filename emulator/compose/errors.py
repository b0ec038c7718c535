"""Why a host does not start: one line for the user, and whose matter it is. Knows no exit status."""


class StartRefused(Exception):
    """The host did not start and changed nothing; `str()` is the line to print."""


class SurroundingsWrong(StartRefused):
    """What the command line names cannot be used: an occupied port, an unwritable or claimed directory."""


class FoundationUnusable(StartRefused):
    """What the host stands on cannot be used: workerd is missing, stored state is corrupt or newer."""
