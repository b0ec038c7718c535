"""The exit codes of the command line and the one exception that carries one; it must not know any command."""

from enum import IntEnum


class ExitCode(IntEnum):
    """What a `takohost` process says by its exit status."""

    DONE = 0
    FAILED = 1
    """Something went wrong while the command ran."""
    USAGE = 2
    """The command line or the surroundings it names are wrong: unknown option, occupied port, unwritable
    directory. Nothing was changed."""
    UNUSABLE = 3
    """What the host stands on cannot be used: missing or wrong workerd, corrupt or newer state. Nothing was
    changed."""


class CommandError(Exception):
    """A command ends with one line on stderr and an exit code.

    Commands translate the errors of their parts into this one; `main` prints `takohost: <message>`.
    """

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
