"""A workerd process: its configuration file, its sockets, its log and the channel to its kernel. Knows no context."""

import asyncio
import itertools
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from emulator.runtime.channel import Channel, ChannelClosed
from emulator.runtime.config import Config
from emulator.runtime.output_log import OutputLog
from emulator.runtime.platform import Child, Reaper

START_TIMEOUT_S = 20.0
_BACKLOG = 512  # requests wait there while a process is replaced
_LONGEST_UNIX_PATH = 100  # 107 bytes on Linux, 103 on macOS


class WorkerdFailed(Exception):
    """workerd ended before it was ready, or was not ready in time; the log has its words."""


class Workerd:
    """A running workerd whose kernel is reached over `channel`."""

    def __init__(self, child: Child, channel: Channel) -> None:
        self.child = child
        self.channel = channel

    async def end(self) -> int:
        """Kill the process and return its exit status once the system has confirmed it; no text arrives afterwards."""
        status = await self.child.end()
        self.channel.abort()
        return status


class Launcher:
    """Starts workerd processes; every configuration is written once, into a directory only this user can enter."""

    def __init__(self, workerd: Path, state_dir: Path, reaper: Reaper, log: OutputLog) -> None:
        self._workerd = workerd
        self._reaper = reaper
        self.output = log
        self._directory = _private_directory(state_dir / "run")
        self._names = itertools.count()
        self._configs: dict[int, tuple[Config, Path]] = {}

    def close(self) -> None:
        """Remove the directory; the processes are their owners' to end."""
        shutil.rmtree(self._directory, ignore_errors=True)

    def spawn(self, config: Config, sockets: Mapping[str, socket.socket]) -> Child:
        """Start a process that listens on `sockets`, by their names in `config`. Raises OSError."""
        command = [str(self._workerd), "serve", "--experimental", str(self._written(config))]
        descriptors = []
        for name, listener in sockets.items():
            descriptors.append(listener.fileno())
            command.append(f"--socket-fd={name}={listener.fileno()}")
        output = self.output.open_pipe()
        try:
            return Child.spawn(command, reaper=self._reaper, pass_fds=descriptors, output_fd=output)
        finally:
            os.close(output)

    def listen(self) -> tuple[socket.socket, Path]:
        """A listening unix socket for one process, and its path."""
        path = self._directory / f"{next(self._names)}.sock"
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(path))
        listener.listen(_BACKLOG)
        return listener, path

    async def start(
        self,
        config: Config,
        control: str,
        on_text: Callable[[str], None],
        on_close: Callable[[], None],
        sockets: Mapping[str, socket.socket] | None = None,
    ) -> Workerd:
        """Start a process and open the channel to its socket `control`. Raises `WorkerdFailed`."""
        with ExitStack() as stack:
            listener, path = self.listen()
            stack.callback(path.unlink)  # nobody else is to connect
            stack.enter_context(listener)
            try:
                child = self.spawn(config, {control: listener, **(sockets or {})})
            except OSError as error:
                raise WorkerdFailed(f"workerd could not be started: {error}") from error
            try:
                return Workerd(child, await self._open(child, path, on_text, on_close))
            except BaseException:
                await child.end()
                raise

    async def _open(
        self, child: Child, path: Path, on_text: Callable[[str], None], on_close: Callable[[], None]
    ) -> Channel:
        opening = asyncio.ensure_future(Channel.connect(path, on_text, on_close))
        opening.add_done_callback(_note)  # whoever waits for it may be cancelled first
        try:
            await asyncio.wait((opening, child.exited), timeout=START_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
            if opening.done():
                return opening.result()
        except (OSError, ChannelClosed) as error:
            raise WorkerdFailed(f"workerd gave no channel: {error}") from error
        finally:
            opening.cancel()
        how = f"ended with status {child.exited.result()}" if child.exited.done() else "was not ready in time"
        raise WorkerdFailed(f"workerd {how}")

    def _written(self, config: Config) -> Path:
        known = self._configs.get(id(config))
        if known is None:
            path = self._directory / f"{next(self._names)}.capnp"
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)  # it may hold a key
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(config.render())
            known = self._configs[id(config)] = (config, path)
        return known[1]


def _private_directory(wanted: Path) -> Path:
    """`wanted`, or a temporary one where unix paths below it would be too long; emptied, mode 0700."""
    if len(os.fsencode(wanted)) > _LONGEST_UNIX_PATH - len("/1000000.sock"):
        return Path(tempfile.mkdtemp(prefix="takohost-"))
    shutil.rmtree(wanted, ignore_errors=True)
    wanted.mkdir(parents=True)
    wanted.chmod(0o700)
    return wanted


def _note(opening: asyncio.Future[Channel]) -> None:
    """Take notice of a failure, so that it is not reported as overlooked."""
    if not opening.cancelled():
        opening.exception()
