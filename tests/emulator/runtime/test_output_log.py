"""What children print is kept up to a size, and printing for ever costs the host little."""

import asyncio
import errno
import os
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

import pytest

from emulator.runtime.output_log import OutputLog
from tests.emulator.runtime.conftest import DEADLINE_S, ScriptedHost


@pytest.fixture
def log(tmp_path: Path) -> Iterator[OutputLog]:
    made = OutputLog(tmp_path / "logs" / "out.log", max_bytes=1000)
    yield made
    made.close()


async def until_written(path: Path, text: bytes) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while text not in path.read_bytes():
            await asyncio.sleep(0.002)


async def test_what_a_child_prints_is_in_the_file(log: OutputLog, tmp_path: Path) -> None:
    descriptor = log.open_pipe()
    os.write(descriptor, b"first\n")
    await until_written(tmp_path / "logs" / "out.log", b"first\n")
    os.write(descriptor, b"last words")
    os.close(descriptor)
    await until_written(tmp_path / "logs" / "out.log", b"last words")


def test_the_file_is_turned_over_at_its_size_and_one_older_is_kept(log: OutputLog, tmp_path: Path) -> None:
    for number in range(100):
        log.write(b"%d" % number * 50)
    files = sorted((tmp_path / "logs").iterdir())
    assert [file.name for file in files] == ["out.log", "out.log.1"]
    assert sum(file.stat().st_size for file in files) <= 2 * 1100


class SmallDisk:
    """A file that takes `room` bytes and no more."""

    def __init__(self, file: FileIO, room: int) -> None:
        self._file = file
        self.room = room

    def write(self, data: bytes) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = self._file.write(data[: self.room])
        self.room -= written
        return written

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)


@pytest.mark.req("MW-16")
def test_a_full_disk_loses_lines_and_cuts_one_short_at_most(log: OutputLog, tmp_path: Path) -> None:
    disk = log._file = SmallDisk(log._file, 12)  # type: ignore[assignment]
    for line in (b"whole\n", b"cut short\n", b"lost\n", b"lost too\n"):
        log.write(line)
    disk.room = 1000
    log.write(b"again\n")
    log.write(b"as ever\n")
    assert (tmp_path / "logs" / "out.log").read_bytes() == b"whole\ncut sh\nagain\nas ever\n"


@pytest.mark.req("MW-16")
def test_without_room_for_a_new_file_the_old_one_is_written_on(
    log: OutputLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(Path, "open", refuse)
        for _ in range(3):
            log.write(b"x" * 999 + b"\n")
    log.write(b"last of the old\n")
    log.write(b"first of the new\n")
    older, newer = tmp_path / "logs" / "out.log.1", tmp_path / "logs" / "out.log"
    assert older.read_bytes().endswith(b"x\nlast of the old\n")
    assert (older.stat().st_size, newer.read_bytes()) == (3016, b"first of the new\n")


@pytest.mark.req("MW-16")
async def test_a_child_that_only_prints_is_not_held_up_and_its_rest_is_dropped(tmp_path: Path) -> None:
    log = OutputLog(tmp_path / "out.log", max_bytes=1 << 30)
    descriptor = log.open_pipe()
    printed = 64 << 20
    async with asyncio.timeout(DEADLINE_S):
        await asyncio.to_thread(lambda: [os.write(descriptor, b"y" * (1 << 20)) for _ in range(printed >> 20)])
    os.close(descriptor)
    await until_written(tmp_path / "out.log", b"the rest is dropped")
    assert (tmp_path / "out.log").stat().st_size < printed
    log.close()


@pytest.mark.req("MW-16")
async def test_the_apps_console_is_kept(host: ScriptedHost, tmp_path: Path) -> None:
    run = await host.run("console.log('hello from the app'); return {};")
    await run.result()
    await until_written(tmp_path / "workerd-0.log", b"hello from the app")
    await run.started.stop()
