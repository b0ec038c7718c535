"""The claim on a state directory and the listeners of a host."""

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from emulator.compose.errors import SurroundingsWrong
from emulator.compose.listeners import ListenerPorts, address_of, bind_all
from emulator.compose.state import StateDirectory
from emulator.compose.stored import open_control_database


def test_a_claimed_directory_is_private(tmp_path: Path) -> None:
    state = StateDirectory.claim(tmp_path / "deep" / "state")
    assert stat.S_IMODE(state.path.stat().st_mode) == 0o700
    state.release()
    state.path.chmod(0o755)
    StateDirectory.claim(state.path).release()
    assert stat.S_IMODE(state.path.stat().st_mode) == 0o700


def test_a_second_claim_is_refused_and_names_the_owner(tmp_path: Path) -> None:
    state = StateDirectory.claim(tmp_path / "state")
    with pytest.raises(SurroundingsWrong, match=rf"in use by takohost process {os.getpid()}$"):
        StateDirectory.claim(tmp_path / "state")
    state.release()
    StateDirectory.claim(tmp_path / "state").release()


def test_the_claim_ends_with_a_killed_owner(tmp_path: Path) -> None:
    claim = "from pathlib import Path; from emulator.compose.state import StateDirectory; import sys, os, signal\n"
    claim += "state = StateDirectory.claim(Path(sys.argv[1])); os.kill(os.getpid(), signal.SIGKILL)"
    subprocess.run([sys.executable, "-c", claim, str(tmp_path / "state")], check=False)
    StateDirectory.claim(tmp_path / "state").release()


def test_a_directory_of_somebody_else_is_refused_untouched(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(SurroundingsWrong, match="neither empty nor a takohost state directory"):
        StateDirectory.claim(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


async def test_a_directory_that_lost_its_lock_file_is_still_ours(tmp_path: Path) -> None:
    state = StateDirectory.claim(tmp_path / "state")
    database = await open_control_database(state)
    await database.close()
    (state.path / "host.lock").unlink()
    with pytest.raises(SurroundingsWrong, match=r"in use by a takohost process \(host\.lock was removed"):
        StateDirectory.claim(state.path)
    state.release()
    (state.path / "host.lock").unlink()
    again = StateDirectory.claim(state.path)
    assert (again.path / "host.lock").read_text().strip() == str(os.getpid())
    assert again.control_database.stat().st_size > 0
    again.release()


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\x00" + b"\x00" * 100])
def test_a_control_database_of_somebody_else_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "control.sqlite").write_bytes(content)
    with pytest.raises(SurroundingsWrong, match="neither empty nor a takohost state directory"):
        StateDirectory.claim(tmp_path)
    assert (tmp_path / "control.sqlite").read_bytes() == content


def test_a_directory_that_cannot_be_made_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SurroundingsWrong, match=r"cannot use the state directory .*: Not a directory$"):
        StateDirectory.claim(tmp_path / "file" / "state")


def test_an_occupied_port_is_named_and_nothing_stays_bound() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.create_server(("127.0.0.1", 0)) as other:
        occupied, free = taken.getsockname()[1], other.getsockname()[1]
        other.close()
        with pytest.raises(SurroundingsWrong, match=rf"127\.0\.0\.1:{occupied} \(--management-port\)"):
            bind_all(ListenerPorts(api=free, ingress=0, management=occupied))
        with pytest.raises(SurroundingsWrong, match=rf"127\.0\.0\.1:{occupied} \(--https-port\)"):
            bind_all(ListenerPorts(api=free, ingress=0, secure=occupied))
        socket.create_server(("127.0.0.1", free)).close()


def test_without_a_wish_the_ingress_falls_back_to_any_port() -> None:
    first, second = bind_all(ListenerPorts()), bind_all(ListenerPorts())
    assert address_of(first.ingress) != address_of(second.ingress)
    first.close()
    second.close()
