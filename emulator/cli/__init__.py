"""The `takohost` command line: finds the command and runs it. It knows no command's work.

A command is a module of this package with two functions:

    def add_parser(subparsers: SubParsers) -> None       # names the command and its options
    def run(arguments: argparse.Namespace) -> int        # does the work, returns the exit code

Its module level imports only what parsing needs (start-up time counts); `run` imports the rest. It raises
`CommandError` for what the user should read in one line. It is listed in `COMMANDS` below.
"""

import argparse
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn, TypeAlias

from emulator import __version__
from emulator.cli.errors import CommandError, ExitCode

COMMANDS = {
    "faults": "emulator.cli.faults",
    "install-runtime": "emulator.cli.install_runtime",
    "serve": "emulator.cli.serve",
    "support": "emulator.cli.support",
    "token": "emulator.cli.token",
}
"""Command name -> module. Only the named command's module is imported; all of them for `--help`."""


class Parser(argparse.ArgumentParser):
    """Answers a wrong command line with one line on stderr and exit code 2."""

    def error(self, message: str) -> NoReturn:
        """Raise `CommandError` instead of printing the whole usage."""
        raise CommandError(f"{message} (see `{self.prog} --help`)", ExitCode.USAGE)


SubParsers: TypeAlias = "argparse._SubParsersAction[Parser]"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (default: of this process) and return its exit code; prints errors as one line."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        arguments, unknown = build_parser(words).parse_known_args(words)
        if unknown:
            prog = " ".join(("takohost", *filter(None, (arguments.command,))))
            raise CommandError(f"unknown option or argument: {' '.join(unknown)} (see `{prog} --help`)", ExitCode.USAGE)
        if arguments.command is None:
            raise CommandError("which command? (see `takohost --help`)", ExitCode.USAGE)
        return int(import_module(COMMANDS[arguments.command]).run(arguments))
    except CommandError as error:
        print(f"takohost: {error.message}", file=sys.stderr)
        return error.code
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def build_parser(words: Sequence[str]) -> Parser:
    """A parser that knows the command named in `words`, or every command when it names none."""
    parser = Parser(prog="takohost", description="An edge host on one machine.", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"takohost {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    needed = [word for word in words[:1] if word in COMMANDS] or list(COMMANDS)
    for command in needed if words[:1] != ["--version"] else ():
        import_module(COMMANDS[command]).add_parser(subparsers)
    return parser
