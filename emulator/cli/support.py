"""`takohost support`: what is not built of the Forms that a host advertises. Knows no Form."""

import argparse
from typing import TYPE_CHECKING

from emulator.cli.errors import ExitCode

if TYPE_CHECKING:
    from emulator.cli import SubParsers


def add_parser(subparsers: "SubParsers") -> None:
    """Name the command; it needs no running host."""
    what = "what is not built of the Forms that a host advertises"
    parser = subparsers.add_parser("support", help=what, allow_abbrev=False)
    parser.add_argument("--document", action="store_true", help="all of docs/support.md, with what the tests speak of")


def run(arguments: argparse.Namespace) -> int:
    """Print what is missing; with `--document`, all of `docs/support.md`."""
    from emulator.compose.support import render, render_missing

    print(render() if arguments.document else render_missing(), end="")
    return ExitCode.DONE
