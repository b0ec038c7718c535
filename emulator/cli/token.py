"""`takohost token new`: makes a token for a principal and stores its hash. Knows no file format."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.cli.errors import CommandError, ExitCode

if TYPE_CHECKING:
    from emulator.cli import SubParsers


def add_parser(subparsers: "SubParsers") -> None:
    """Name the command and its options."""
    parser = subparsers.add_parser("token", help="make tokens of principals", allow_abbrev=False)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    new = actions.add_parser(
        "new", help="print a new token once and store its hash in the token file", allow_abbrev=False
    )
    new.add_argument("--file", type=Path, required=True, metavar="PATH", help="the file of `serve --auth tokens:PATH`")
    new.add_argument("--principal", required=True, metavar="NAME", help="whose token it is; added when unknown")


def run(arguments: argparse.Namespace) -> int:
    """Print the token, and nothing else, on stdout."""
    from emulator.compose.errors import SurroundingsWrong
    from emulator.compose.token_file import add_token

    try:
        print(add_token(arguments.file, arguments.principal))
    except SurroundingsWrong as error:
        raise CommandError(str(error), ExitCode.USAGE) from error
    return ExitCode.DONE
