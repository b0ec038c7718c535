"""`takohost serve` with wrong options and wrong surroundings: one clear line each, and nothing is changed."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from emulator.compose.errors import FoundationUnusable
from emulator.compose.state import StateDirectory

pytestmark = pytest.mark.usefixtures("workerd")


def serve(*words: str, **environment: str) -> tuple[int, str]:
    """Exit code and the one line on stderr of a host that must not start."""
    process = subprocess.run(
        [sys.executable, "-m", "emulator.cli", "serve", *words],
        capture_output=True,
        text=True,
        timeout=30,
        env={**os.environ, **environment},
        check=False,
    )
    assert process.stdout == ""
    line, newline, rest = process.stderr.partition("\n")
    assert (newline, rest) == ("\n", ""), process.stderr
    assert line.startswith("takohost: ")
    return process.returncode, line.removeprefix("takohost: ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--prot", "1"], "unknown option or argument: --prot 1"),
        (["--default-worker", ""], "'' is no name of a Worker"),
        (["--default-worker", "a/b"], "'a/b' is no name of a Worker"),
        (["--api-port", "http"], "'http' is no port"),
        (["--ingress-port", "65536"], "'65536' is no port"),
        (["--runners", "0"], "'0' is not a number from 1"),
        (["--runners", "\u0663"], "is not a number from 1"),
        (["--runners=-3"], "'-3' is not a number from 1"),
        (["--max-contexts", "0"], "'0' is not a number from 1"),
        (["--context-memory", "1"], "'1' is not a number from 32 to 65536"),
        (["--context-memory", "1e3"], "'1e3' is not a number from 32"),
        (["--context-wall-limit", "0"], "'0' is not a number of seconds from 0.1"),
        (["--api-port", "-1"], "'-1' is no port"),
        (["--context-cpu-limit", "nan"], "'nan' is not a number of seconds"),
        (["--allow-outbound", "http://example.com"], "is not local, none or HOST[:PORT]"),
        (["--allow-outbound", "example.com:0"], "is not local, none or HOST[:PORT]"),
        (["--allow-outbound", "local", "--allow-outbound", "none"], "local or none, not both"),
        (["--allow-artifact-origin", "http://10.0.0.1"], "the source is not a plain https URL"),
        (["--allow-artifact-origin", "https://10.0.0.1/a"], "an origin is https://HOST[:PORT] without a path"),
        (["--stop-policy", "gentle"], "invalid choice: 'gentle'"),
        (["--auth", "token"], "'token' is neither none nor tokens:FILE"),
        (["--auth", "tokens:no/such/file"], "cannot use the token file no/such/file"),
        (["--ready-file", "no/such/directory/ready.json"], "its directory does not exist"),
        (["--ready-file", "tests"], "cannot write the ready file tests: it is a directory"),
        (["--ready-file", "pyproject.toml"], "the file there is no ready file"),
        (["--ready-file", "package.json"], "the file there is no ready file"),
    ],
)
def test_a_wrong_option_is_told_in_one_line(tmp_path: Path, words: list[str], said: str) -> None:
    """P06"""
    code, line = serve("--state-dir", str(tmp_path / "state"), *words)
    assert (code, said in line) == (2, True), line
    assert not (tmp_path / "state").exists()


def test_an_occupied_port_is_told_and_nothing_is_made(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, line = serve("--state-dir", str(tmp_path / "state"), "--api-port", str(port))
    assert (code, line) == (2, f"cannot listen on 127.0.0.1:{port} (--api-port): address already in use")
    assert not (tmp_path / "state").exists()


def test_a_start_that_fails_leaves_no_ready_file_of_a_host_that_was_killed(tmp_path: Path) -> None:
    state, ready = tmp_path / "state", tmp_path / "ready.json"
    state.mkdir()
    left = {"pid": os.getpid(), "api": "https://localhost:1", "managementTokenFile": "", "stateDir": str(state)}
    ready.write_text(json.dumps(left))
    code, line = serve("--state-dir", str(state), "--ready-file", str(ready), TAKOHOST_WORKERD=str(tmp_path / "none"))
    assert (code, "does not exist" in line, ready.exists()) == (3, True, False)


def test_a_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, line = serve("--state-dir", str(tmp_path / "file" / "state"), "--ingress-port", "0")
    assert (code, line) == (2, f"cannot use the state directory {tmp_path / 'file' / 'state'}: Not a directory")


def test_a_directory_in_use_is_told_with_its_owner(tmp_path: Path) -> None:
    state = StateDirectory.claim(tmp_path / "state")
    code, line = serve("--state-dir", str(state.path), "--ingress-port", "0")
    assert (code, line) == (2, f"the state directory {state.path} is in use by takohost process {os.getpid()}")
    state.release()


@pytest.mark.req("DW-43")
def test_a_missing_workerd_is_told_and_nothing_is_made(tmp_path: Path) -> None:
    """Without a runtime whose stop can be proven no host says that it supports the Form: none starts."""
    code, line = serve("--state-dir", str(tmp_path / "state"), TAKOHOST_WORKERD=str(tmp_path / "none"))
    assert (code, line) == (
        3,
        f"TAKOHOST_WORKERD names {tmp_path / 'none'}, which does not exist; correct or unset TAKOHOST_WORKERD",
    )
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("name", ["control.sqlite", "emulator.sqlite", "clock.json", "tls/ca.pem"])
def test_a_corrupt_state_file_is_told_by_name_and_kept(tmp_path: Path, name: str) -> None:
    StateDirectory.claim(tmp_path).release()
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"corrupt " * 1000)
    file.with_suffix(".key").touch()  # of an authority
    code, line = serve("--state-dir", str(tmp_path), "--ingress-port", "0")
    assert (code, "damaged" in line, str(file.parent) in line) == (3, True, True), line
    assert file.read_bytes() == b"corrupt " * 1000


@pytest.mark.parametrize("mark", ["host.key", "management.token"])
@pytest.mark.parametrize("is_empty", [True, False])
@pytest.mark.parametrize("name", ["control.sqlite", "emulator.sqlite"])
def test_one_database_without_the_other_is_refused_unchanged(
    tmp_path: Path, name: str, is_empty: bool, mark: str
) -> None:
    StateDirectory.claim(tmp_path).release()
    for kept in {"control.sqlite", "emulator.sqlite", mark} - {name}:
        (tmp_path / kept).write_bytes(b"of an earlier host")
    if is_empty:
        (tmp_path / name).write_bytes(b"")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    what = "empty" if is_empty else "missing"
    with pytest.raises(FoundationUnusable, match=f"{name} is {what}, the rest of the state is there"):
        StateDirectory.claim(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_lost_database_is_told_in_one_line(tmp_path: Path) -> None:
    StateDirectory.claim(tmp_path).release()
    (tmp_path / "host.key").write_bytes(b"k" * 32)
    (tmp_path / "emulator.sqlite").write_bytes(b"of an earlier host")
    code, line = serve("--state-dir", str(tmp_path), "--ingress-port", "0")
    assert (code, line.startswith(f"{tmp_path / 'control.sqlite'} is missing")) == (3, True), line


def test_a_database_of_a_newer_version_is_refused_untouched(tmp_path: Path) -> None:
    StateDirectory.claim(tmp_path).release()
    file = tmp_path / "control.sqlite"
    connection = apsw.Connection(str(file))
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE t (x); PRAGMA application_id = 1953194801; PRAGMA user_version = 999")
    connection.close()
    before = file.read_bytes()
    code, line = serve("--state-dir", str(tmp_path), "--ingress-port", "0")
    assert code == 3
    assert "newer takohost" in line or "another application" in line
    assert file.read_bytes() == before
