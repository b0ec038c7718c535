"""`takohost install-runtime`: the command around the runtime's installer. Knows no npm and no place."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
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
    from emulator.runtime.install import install_runtime
    from emulator.runtime.unusable import RuntimeUnusable

    try:
        with tell_fetching():
            runtime = install_runtime()
    except RuntimeUnusable as reason:
        raise CommandError(str(reason), ExitCode.UNUSABLE) from None
    print(f"workerd {runtime.version}  {runtime.workerd}")
    return ExitCode.DONE


def fetch_on_first_use() -> None:
    """Make sure that there is a runtime before a command needs it; exit code 3 when it cannot be had."""
    from emulator.runtime.locate import locate_runtime
    from emulator.runtime.unusable import RuntimeUnusable

    try:
        locate_runtime()
    except RuntimeUnusable:
        pass
    else:
        return  # the usual start does not even load the installer
    from emulator.runtime.install import obtain_runtime

    try:
        obtain_runtime(announce=tell_first_use)
    except RuntimeUnusable as reason:
        raise CommandError(str(reason), ExitCode.UNUSABLE) from None


@contextmanager
def tell_first_use() -> Iterator[None]:
    """Say why the first start takes longer, on stderr."""
    print("takohost: fetching workerd into the user's cache, this once", file=sys.stderr)
    with tell_fetching():
        yield


def tell_fetching() -> AbstractContextManager[None]:
    """The spinner of a fetch."""
    from emulator.cli.terminal import spinner

    return spinner("fetching workerd")
