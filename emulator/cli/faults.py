"""`takohost faults list`: every fault point that the host can be told to fail at. Knows no point."""

import argparse
from typing import TYPE_CHECKING

from emulator.cli.errors import ExitCode

if TYPE_CHECKING:
    from emulator.cli import SubParsers

_HOW_TO_ARM = """
Arm one with the management token of a running host:
  curl -H "Authorization: Bearer $TOKEN" "$MANAGEMENT/v1/faults" -d '{"name": "NAME", "nth": 1, "action": "kill"}'
`nth` counts from now; `action` is kill, error, or delay with "seconds". GET of the same shows what is armed."""


def add_parser(subparsers: "SubParsers") -> None:
    """Name the command; it needs no running host."""
    parser = subparsers.add_parser("faults", help="the points at which a host can be made to fail", allow_abbrev=False)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    actions.add_parser("list", help="print every point and what lies before and after it", allow_abbrev=False)


def run(arguments: argparse.Namespace) -> int:
    """One line a point: its name, and its meaning."""
    from emulator.compose.fault_points import declared_points

    points = declared_points()
    width = max(map(len, points))
    for name, meaning in points.items():
        print(f"{name:<{width}}  {meaning}")
    print(_HOW_TO_ARM)
    return ExitCode.DONE
