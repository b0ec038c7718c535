"""`takohost support`: what is not built of the Forms that a host advertises. Knows no Form."""

import argparse
from typing import TYPE_CHECKING

from emulator.cli.errors import ExitCode

if TYPE_CHECKING:
    from emulator.cli import SubParsers


def add_parser(subparsers: "SubParsers") -> None:
    """Name the command; it needs no running host."""
    subparsers.add_parser("support", help="what is not built of the Forms that a host advertises", allow_abbrev=False)


def run(arguments: argparse.Namespace) -> int:
    """Print `docs/support.md` as this version would write it."""
    from emulator.compose.support import render

    print(render(), end="")
    return ExitCode.DONE
