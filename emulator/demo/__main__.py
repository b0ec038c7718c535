"""`python -m emulator.demo`: the command line of the demo and what it prints."""

import argparse
import json
import signal
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from emulator.client import ClientError
from emulator.demo.errors import DemoFailed
from emulator.demo.fixture import load_fixture
from emulator.demo.play import Told, play
from emulator.demo.timeline import tell_instance
from emulator.demo.verdict import Verdict, judge

_FIXTURE = Path("fixtures/order-workflow")


def main(argv: list[str] | None = None) -> int:
    """Exit status: 0 all complete and every completed step done once, 1 otherwise, 2 wrong usage."""
    arguments = _parser().parse_args(argv)
    began_s = time.monotonic()
    try:
        told = play(load_fixture(arguments.fixture), arguments.kill_at, _silent if arguments.json else _say)
    except (DemoFailed, ClientError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("demo: interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    verdict = judge(told.seen.values(), told.effects, told.killed_ms)
    if arguments.json:
        print(json.dumps(_document(told, verdict)))
    else:
        _print(told, verdict)
        print(f"demo: {time.monotonic() - began_s:.1f} s in all")
    return 1 if verdict.faults else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m emulator.demo", allow_abbrev=False)
    parser.add_argument("--fixture", type=Path, default=_FIXTURE, help=f"fixture directory (default {_FIXTURE})")
    parser.add_argument("--kill-at", type=_positive, help="kill the host at the n-th effect instead of in its sleep")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of a timeline")
    return parser


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError("must be a positive integer")
    return int(text)


def _print(told: Told, verdict: Verdict) -> None:
    for sighting in told.seen.values():
        lines = tell_instance(sighting, told.effects, told.deployed.version_names, told.killed_ms, told.ready_ms)
        print("\n" + "\n".join(lines))
    print()
    for note in verdict.notes:
        print(f"note: {note}")
    for fault in verdict.faults:
        print(f"FAULT: {fault}")
    if not verdict.faults:
        steps = [step for seen in told.seen.values() for step in seen.steps if step.kind == "do"]
        done = sum(effect.status == 200 for effect in told.effects)
        print(f"all {len(told.seen)} instances complete; the counter saw {done} effects done for {len(steps)} steps")
    cold_s, warm_s = told.start_to_ready_s
    print(f"start to ready: {cold_s:.2f} s on an empty state directory, {warm_s:.2f} s at the restart")


def _document(told: Told, verdict: Verdict) -> dict[str, Any]:
    return {**asdict(told), **asdict(verdict), "ok": not verdict.faults}


def _say(line: str) -> None:
    print(f"demo: {line}", flush=True)


def _silent(line: str) -> None:
    """With --json nothing but the document goes to stdout."""


if __name__ == "__main__":
    sys.exit(main())
