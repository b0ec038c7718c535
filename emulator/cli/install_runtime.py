"""`takohost install-runtime`: the command around the runtime's installer. Knows no npm and no place."""

import argparse
from typing import TYPE_CHECKING

from emulator.cli.errors import CommandError, ExitCode

if TYPE_CHECKING:
    from emulator.cli import SubParsers


def add_parser(subparsers: "SubParsers") -> None:
    """Name the command; it has no options."""
    summary = "fetch the pinned workerd into the user's cache"
    subparsers.add_parser("install-runtime", help=summary, description=summary, allow_abbrev=False)


def run(arguments: argparse.Namespace) -> int:
    """Fetch what is not there yet and print where workerd lies; exit code 3 when it cannot be had."""
    from emulator.cli.terminal import spinner
    from emulator.runtime.install import install_runtime
    from emulator.runtime.unusable import RuntimeUnusable

    try:
        with spinner("fetching workerd"):
            runtime = install_runtime()
    except RuntimeUnusable as reason:
        raise CommandError(str(reason), ExitCode.UNUSABLE) from None
    print(f"workerd {runtime.version}  {runtime.workerd}")
    return ExitCode.DONE
