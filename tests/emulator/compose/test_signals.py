"""What signals and the terminal's Ctrl-C do to a host and to its children."""

import os
import pty
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

import pytest

from emulator.client import ReadyFile
from emulator.compose.signals import StopSignals
from tests.emulator.compose.hosts import TestHost, is_gone, running_host, wait_until

pytestmark = pytest.mark.usefixtures("workerd")

UNFINISHED = b"POST /apis/forms.takoform.com/v2/resources HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"


@contextmanager
def unfinished_request(ready: ReadyFile) -> Iterator[None]:
    """A request to the Host API whose body does not come: a drain waits for it."""
    context = ssl.create_default_context(cafile=ready.ca)
    with (
        socket.create_connection(("127.0.0.1", urlsplit(ready.api).port or 0)) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        secure.sendall(UNFINISHED)
        yield


def says(log: Path, words: str) -> bool:
    return words in log.read_text()


def signal_again(host: TestHost, number: signal.Signals) -> int:
    """Exit status of a host whose drain is interrupted: as soon as a further signal is no echo of the first."""
    os.kill(host.ready.pid, number)
    wait_until(lambda: says(host.log, "takohost is stopping"))
    assert host.process.is_alive

    def ended() -> bool:
        if host.process.is_alive:
            os.kill(host.ready.pid, number)
        return not host.process.is_alive

    wait_until(ended)
    return host.process.wait_ended(3.0)


class Ended(Exception):
    """Raised in place of an exit."""


def test_signals_at_the_same_time_are_one_and_a_later_one_ends_at_once() -> None:
    now_s, asked = 100.0, 0

    def ask() -> None:
        nonlocal asked
        asked += 1

    def end(status: int) -> NoReturn:
        raise Ended(status)

    signals = StopSignals(ask, end, lambda: now_s)
    for later_s in (0.0, 0.0, 0.1, 0.85):
        now_s += later_s
        signals(signal.SIGTERM)
        signals(signal.SIGINT)
        assert asked == 1
    now_s += 0.1
    for number in (signal.SIGTERM, signal.SIGINT):
        with pytest.raises(Ended, match=str(128 + number)):
            signals(number)
    assert asked == 1


def test_a_signal_to_a_host_that_has_nothing_left_to_end_ends_it_at_once() -> None:
    def ask() -> None:
        raise RuntimeError("Event loop is closed")

    def end(status: int) -> NoReturn:
        raise Ended(status)

    with pytest.raises(Ended, match="130"):
        StopSignals(ask, end, lambda: 1.0)(signal.SIGINT)


def test_two_signals_at_once_leave_the_end_orderly(tmp_path: Path) -> None:
    with running_host(tmp_path / "h") as host:
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGINT):
            os.kill(host.ready.pid, number)
        assert host.process.wait_ended(10.0) == 0
        assert not host.ready_file.exists()
        assert not says(host.log, "Traceback")


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_second_signal_ends_a_draining_host_at_once(tmp_path: Path, number: signal.Signals, status: int) -> None:
    with running_host(tmp_path / "h") as host:
        children = host.children()
        with unfinished_request(host.ready):
            assert signal_again(host, number) == status
        wait_until(lambda: all(map(is_gone, children)), 5.0)
        assert not says(host.log, "Traceback")


@contextmanager
def host_in_a_terminal(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], int, Path]]:
    """A host whose controlling terminal is a new one; gives the terminal's other end and the ready file."""
    master, slave = pty.openpty()
    words = ["--state-dir", str(folder / "state"), "--ingress-port", "0", "--ready-file", str(folder / "ready.json")]
    take_terminal = (
        "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
    )
    command = [sys.executable, "-c", take_terminal, sys.executable, "-m", "emulator.cli", "serve", *words]
    with (folder / "host.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=slave, stdout=log, stderr=log, start_new_session=True)
    os.close(slave)
    try:
        yield process, master, folder / "ready.json"
    finally:
        os.close(master)
        process.kill()
        process.wait()


def test_ctrl_c_in_a_terminal_reaches_the_host_and_none_of_its_children(tmp_path: Path) -> None:
    with host_in_a_terminal(tmp_path) as (process, terminal, ready_file):
        wait_until(ready_file.exists)
        ready = ReadyFile.read(ready_file)
        children = Path(f"/proc/{ready.pid}/task/{ready.pid}/children")
        if children.exists():
            pids = [int(pid) for pid in children.read_text().split()]
            assert pids
            assert os.getpgid(ready.pid) not in map(os.getpgid, pids)
        os.write(terminal, b"\x03")
        assert process.wait(10.0) == 0
        log = (tmp_path / "host.log").read_text()
        assert ("takohost is stopping" in log, "ended with status" in log, "Traceback" in log) == (True, False, False)


SLOW = """
export class Work {
  async run(event, step) {
    await step.do("slow", () => new Promise((done) => setTimeout(done, 1000)));
    return { done: true };
  }
}
export default {
  async fetch(request, env) {
    const path = new URL(request.url).pathname;
    if (path === "/start") await env.WF.create({ id: "one" });
    if (path === "/slow") await scheduler.wait(1000);
    return new Response("whole");
  },
};
"""


def is_refused(origin: str) -> bool:
    try:
        socket.create_connection(("127.0.0.1", urlsplit(origin).port or 0)).close()
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:
        pass  # it was in the queue of a listener that just closed
    return False


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a connection waits and is cut at the end")
def test_a_draining_host_refuses_connections_and_lets_requests_and_contexts_end(tmp_path: Path) -> None:
    with running_host(tmp_path / "h") as host:
        workflow = host.deploy("slow", SLOW, "Work")
        assert host.ask("/start").text == "whole"
        wait_until(lambda: len(host.management.instance(workflow, "one")["steps"]) == 1)
        with socket.create_connection(("127.0.0.1", urlsplit(host.ready.ingress).port or 0)) as request:
            request.sendall(b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert host.ask("/").text == "whole"  # the request before it has been read
            os.kill(host.ready.pid, signal.SIGTERM)
            wait_until(lambda: is_refused(host.ready.ingress))
            request.settimeout(10.0)
            assert request.recv(4096).startswith(b"HTTP/1.1 200 ")
        assert host.process.wait_ended(10.0) == 0
        assert not says(host.log, "Traceback")
    with running_host(tmp_path / "h") as again:
        shown = again.management.instance(workflow, "one")
        assert (shown["status"], len(shown["contexts"])) == ("complete", 1)
