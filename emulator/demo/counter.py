"""The world outside: a small HTTP server that counts effects, refuses some and can kill the host at the n-th one.

Runs as its own process (`python -m emulator.demo.counter`) that outlives the host, so what it counted is evidence.
Uses the standard library only and knows nothing of the host but the file that holds its pid.
"""

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_MAX_BODY_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Effect:
    """One POST as it was counted: the `n`-th, `status` 200 done or 503 refused; `killed`: the host died at it."""

    n: int
    at_ms: int
    instance: str
    step: str
    status: int
    killed: bool


class EffectLog:
    """Counts effects and decides their answers."""

    def __init__(self, refusals: dict[tuple[str, str], int], kill_at: int | None, pid_file: Path | None) -> None:
        self._refusals = Counter(refusals)
        self._kill_at = kill_at
        self._pid_file = pid_file
        self._lock = threading.Lock()
        self.effects: list[Effect] = []

    def take(self, instance: str, step: str) -> Effect:
        """Count one effect; at the appointed one the host is killed before anybody is answered."""
        with self._lock:
            n = len(self.effects) + 1
            status = 503 if self._refusals[(instance, step)] > 0 else 200
            self._refusals[(instance, step)] -= 1
            killed = n == self._kill_at
            effect = Effect(n, time.time_ns() // 1_000_000, instance, step, status, killed)
            self.effects.append(effect)
            if killed:
                self._kill_host()
            return effect

    def _kill_host(self) -> None:
        assert self._pid_file is not None
        os.kill(int(json.loads(self._pid_file.read_bytes())["pid"]), signal.SIGKILL)


class EffectHandler(BaseHTTPRequestHandler):
    """`POST /effects/<name>` counts; `GET /effects` lists."""

    log: EffectLog
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one segment per answer: two would wait for each other on a kept connection

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if not self.path.startswith("/effects/") or length > _MAX_BODY_BYTES:
            self._answer(404, {"error": "POST /effects/<name>"})
            return
        try:
            body = json.loads(self.rfile.read(length))
            instance, step = str(body["instance"]), str(body["step"])
        except (ValueError, KeyError, TypeError):
            self._answer(400, {"error": 'an effect is a JSON object with "instance" and "step"'})
            return
        effect = self.log.take(instance, step)
        self._answer(effect.status, {"receipt": f"{step}-{effect.n}"})

    def do_GET(self) -> None:
        self._answer(200, [asdict(effect) for effect in self.log.effects])

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Requests are in the log of effects, not on stderr."""

    def _answer(self, status: int, value: object) -> None:
        content = json.dumps(value).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
        except ConnectionError:
            self.close_connection = True  # the host was killed while it waited


class EffectServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A peer that vanished is what this server is for; everything else is shown."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def main() -> None:
    """Serve until stdin ends, having printed the port."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--refusals", default="[]", help='JSON: [{"instance", "effect", "times"}]')
    parser.add_argument("--kill-at", type=int)
    parser.add_argument("--pid-file", type=Path)
    arguments = parser.parse_args()
    refusals = {(rule["instance"], rule["effect"]): int(rule["times"]) for rule in json.loads(arguments.refusals)}
    EffectHandler.log = EffectLog(refusals, arguments.kill_at, arguments.pid_file)
    server = EffectServer(("127.0.0.1", 0), EffectHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
