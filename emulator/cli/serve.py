"""`takohost serve`: runs a host until a signal ends it. Knows options and exit codes, wires nothing."""

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.cli.errors import CommandError, ExitCode

if TYPE_CHECKING:
    from emulator.artifacts.places import AllowedOrigin
    from emulator.cli import SubParsers
    from emulator.compose.options import HostOptions, OutboundOptions

_DIGITS = re.compile(r"[0-9]{1,9}")
_LEAST_MEMORY_MIB = 32
"""A history of 4 MiB and a document of 1 MiB at work need so much; with 1 no code starts at all."""
_MOST_MEMORY_MIB = 65536
_HOST_PORT = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:\d{1,5})?")


def add_parser(subparsers: "SubParsers") -> None:
    """Name the command and its options."""
    parser = subparsers.add_parser("serve", help="run a host", allow_abbrev=False)
    parser.add_argument(
        "--state-dir", type=Path, default=Path(".takohost"), help="where everything is kept (default .takohost)"
    )
    parser.add_argument("--api-port", type=_port, default=0, metavar="PORT", help="Host API, https (default any)")
    parser.add_argument(
        "--ingress-port", type=_port, default=None, metavar="PORT", help="Workers, http (default 8787 when free)"
    )
    parser.add_argument("--https-port", type=_port, default=0, metavar="PORT", help="Workers over TLS (default any)")
    parser.add_argument(
        "--management-port", type=_port, default=0, metavar="PORT", help="management, http (default any)"
    )
    parser.add_argument("--ready-file", type=Path, metavar="PATH", help="written once everything answers")
    parser.add_argument("--default-worker", type=_name, metavar="NAME", help="the Worker that plain localhost reaches")
    parser.add_argument(
        "--allow-outbound",
        action="append",
        default=[],
        type=_outbound,
        metavar="local|none|HOST[:PORT]",
        help="where Workers may fetch besides public addresses; `none` closes these too",
    )
    parser.add_argument(
        "--allow-artifact-origin",
        action="append",
        default=[],
        metavar="ORIGIN[=TOKENFILE][,ca=PEMFILE]",
        help="an https origin that bundles may come from though it is private, with the host's token and an authority",
    )
    _add_runner_options(parser)
    parser.add_argument(
        "--auth",
        type=_auth,
        default=None,
        metavar="none|tokens:FILE",
        help="`none`: one principal, `local`; `tokens:FILE`: bearer tokens of the principals in a TOML file",
    )


def _add_runner_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--gateway-processes",
        type=_count(),
        metavar="N",
        help="processes for requests to Workers when one is busy (default: one per processor, 4 at most)",
    )
    parser.add_argument(
        "--runners",
        type=_count(),
        metavar="N",
        help="contexts that run alone in a process (default 8 per processor); beyond that they share processes",
    )
    _add_context_options(parser)


def _add_context_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--max-contexts", type=_count(), default=1000, metavar="N", help="contexts at a time (default 1000)"
    )
    memory = _count(_LEAST_MEMORY_MIB, _MOST_MEMORY_MIB)
    parser.add_argument(
        "--context-memory",
        type=memory,
        default=256,
        metavar="MIB",
        help="memory of one context (default 256, at least 32)",
    )
    parser.add_argument(
        "--context-cpu-limit",
        type=_seconds,
        default=10.0,
        metavar="SECONDS",
        help="end code that takes so much processor time without a turn of the event loop (default 10)",
    )
    parser.add_argument(
        "--context-wall-limit",
        type=_seconds,
        metavar="SECONDS",
        help="end code that makes no step, call or result for so long (default: never, an effect may wait)",
    )
    parser.add_argument(
        "--stop-policy",
        choices=("reuse", "strict"),
        default="reuse",
        help="stop contexts by abort and acknowledgement (reuse, the default), or kill their process after each",
    )


def run(arguments: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT; 0 after an orderly end."""
    import gc

    gc.disable()  # nothing that a start makes is garbage; the host enables it once it is ready
    from emulator.cli.install_runtime import fetch_on_first_use
    from emulator.compose.errors import FoundationUnusable, StartRefused
    from emulator.compose.run import clear_ready_file, run_host

    options = _options(arguments)
    try:
        clear_ready_file(options)
        fetch_on_first_use()
        run_host(options)
    except FoundationUnusable as error:
        raise CommandError(str(error), ExitCode.UNUSABLE) from error
    except StartRefused as error:
        raise CommandError(str(error), ExitCode.USAGE) from error
    return ExitCode.DONE


def _options(arguments: argparse.Namespace) -> "HostOptions":
    from emulator.compose.listeners import ListenerPorts
    from emulator.compose.options import HostOptions, RunnerOptions

    return HostOptions(
        state_dir=arguments.state_dir,
        ports=ListenerPorts(
            arguments.api_port, arguments.ingress_port, arguments.https_port, arguments.management_port
        ),
        ready_file=arguments.ready_file,
        default_worker=arguments.default_worker,
        token_file=arguments.auth,
        artifact_origins=tuple(map(_artifact_origin, arguments.allow_artifact_origin)),
        gateway_processes=arguments.gateway_processes,
        outbound=_outbound_options(arguments.allow_outbound),
        runners=RunnerOptions(
            runners=arguments.runners,
            max_contexts=arguments.max_contexts,
            context_memory_mib=arguments.context_memory,
            context_cpu_limit_s=arguments.context_cpu_limit,
            context_wall_limit_s=arguments.context_wall_limit,
            is_strict=arguments.stop_policy == "strict",
        ),
    )


def _outbound_options(words: list[str]) -> "OutboundOptions":
    from emulator.compose.options import OutboundOptions
    from emulator.runtime.kernels import OutboundMode

    modes = {word for word in words if word in ("local", "none")}
    if len(modes) > 1:
        raise CommandError("--allow-outbound is local or none, not both", ExitCode.USAGE)
    allow = tuple(word for word in words if word not in modes)
    return OutboundOptions(OutboundMode(modes.pop()) if modes else OutboundMode.PUBLIC, allow)


def _artifact_origin(text: str) -> "AllowedOrigin":
    """Parsed after the command line, as its rules need more imports than parsing may."""
    from emulator.artifacts.places import AllowedOrigin, PlaceRefused, read_origin

    named, _, ca = text.partition(",ca=")
    origin, _, token = named.partition("=")
    try:
        return AllowedOrigin(read_origin(origin), Path(token) if token else None, Path(ca) if ca else None)
    except PlaceRefused as error:
        raise CommandError(f"--allow-artifact-origin {origin!r}: {error}", ExitCode.USAGE) from None


def _auth(text: str) -> Path | None:
    """The token file; `None` for no authentication."""
    kind, _, path = text.partition(":")
    if text != "none" and (kind != "tokens" or not path):
        raise argparse.ArgumentTypeError(f"{text!r} is neither none nor tokens:FILE")
    return Path(path) if path else None


def _name(text: str) -> str:
    from host.model.ids import is_identifier

    if not is_identifier(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no name of a Worker")
    return text


def _port(text: str) -> int:
    if not _DIGITS.fullmatch(text) or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port (0 to 65535)")
    return int(text)


def _count(least: int = 1, most: int = 1_000_000) -> Callable[[str], int]:
    """A reader of whole numbers between these."""

    def read(text: str) -> int:
        if not _DIGITS.fullmatch(text) or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from {least} to {most}")
        return int(text)

    return read


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0.1 <= seconds <= 86400:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0.1 to 86400")
    return seconds


def _outbound(text: str) -> str:
    """`local`, `none`, or a host with an optional port; an IPv6 address stands in brackets."""
    found = _HOST_PORT.fullmatch(text)
    if found is None or (found[2] is not None and not 1 <= int(found[2][1:]) <= 65535):
        raise argparse.ArgumentTypeError(f"{text!r} is not local, none or HOST[:PORT]")
    return text
