"""The command line: one line per error, the right exit status, and nothing heavy loaded to parse."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import emulator
from emulator import cli
from emulator.cli import main
from emulator.cli.errors import CommandError, ExitCode
from emulator.cli.install_runtime import fetch_on_first_use
from tests.emulator.runtime.npm_stand_in import Npm


def run_cli(*words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """A real process of the command line."""
    return subprocess.run(
        [sys.executable, "-m", "emulator.cli", *words],
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
    )


@pytest.mark.parametrize(
    "words",
    [
        ["install-runtime", "--no-such-option"],
        ["--no-such-option"],
        ["no-such-command"],
        ["install-runtime", "surplus"],
        [],
        ["--vers"],
    ],
)
def test_a_wrong_command_line_is_one_line_and_exit_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == ExitCode.USAGE
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("takohost: ")
    assert printed.err.count("\n") == 1


def test_the_unknown_option_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    main(["install-runtime", "--no-such-option"])
    assert "--no-such-option" in capsys.readouterr().err


def test_an_unknown_option_without_a_command_is_told_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--bogus"]) == ExitCode.USAGE
    assert capsys.readouterr().err == "takohost: unknown option or argument: --bogus (see `takohost --help`)\n"


def test_an_unknown_option_of_a_command_points_to_the_help_of_that_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--bogus"]) == ExitCode.USAGE
    assert capsys.readouterr().err == "takohost: unknown option or argument: --bogus (see `takohost serve --help`)\n"


def test_the_list_of_fault_points_says_how_to_arm_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["faults", "list"]) == ExitCode.DONE
    assert '/v1/faults" -d \'{"name": "NAME", "nth": 1, "action": "kill"}\'' in capsys.readouterr().out


def test_version_is_the_distribution_s() -> None:
    done = run_cli("--version")
    assert (done.returncode, done.stdout) == (0, f"takohost {emulator.__version__}\n")


def test_help_names_every_command() -> None:
    done = run_cli("--help")
    assert done.returncode == 0
    assert all(command in done.stdout for command in cli.COMMANDS)


def test_an_unusable_runtime_is_one_line_and_exit_3(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run_cli("install-runtime", env={"XDG_CACHE_HOME": str(tmp_path / "file")})
    assert done.returncode == ExitCode.UNUSABLE
    assert done.stderr.startswith("takohost: the user's cache ")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_a_command_s_error_is_printed_and_its_code_returned(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(arguments: object) -> int:
        raise CommandError("the port is taken", ExitCode.USAGE)

    monkeypatch.setattr("emulator.cli.install_runtime.run", fail)
    assert main(["install-runtime"]) == ExitCode.USAGE
    assert capsys.readouterr().err == "takohost: the port is taken\n"


def test_an_interrupted_command_ends_like_one_killed_by_the_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(arguments: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("emulator.cli.install_runtime.run", interrupt)
    assert main(["install-runtime"]) == 130


@pytest.mark.parametrize("command", ["install-runtime", "serve"])
def test_parsing_loads_nothing_heavy(command: str) -> None:
    heavy = {"asyncio", "starlette", "hypercorn", "cryptography", "httpx", "websockets", "apsw", "sqlite3"}
    program = (
        "import sys; from emulator.cli import build_parser; "
        f"build_parser([{command!r}]).parse_args([{command!r}]); print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3]
    )
    assert not heavy & set(done.stdout.split())


def test_the_first_use_fetches_the_runtime_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    npm = Npm(tmp_path)
    for name in ("PATH", "HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, npm.env[name])
    monkeypatch.delenv("TAKOHOST_WORKERD", raising=False)
    monkeypatch.chdir(tmp_path)
    fetch_on_first_use()
    assert capsys.readouterr().err == "takohost: fetching workerd into the user's cache, this once\n"
    fetch_on_first_use()
    assert capsys.readouterr().err == ""
    assert len(npm.runs) == 1


def test_serving_with_a_chosen_workerd_that_is_absent_is_one_line_and_exit_3_and_changes_nothing(
    tmp_path: Path,
) -> None:
    env = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"), "TAKOHOST_WORKERD": str(tmp_path / "no")}
    state = tmp_path / "state"
    done = run_cli("serve", "--state-dir", str(state), env=env)
    assert done.returncode == ExitCode.UNUSABLE
    advice = "correct or unset TAKOHOST_WORKERD"
    assert done.stderr == f"takohost: TAKOHOST_WORKERD names {tmp_path / 'no'}, which does not exist; {advice}\n"
    assert not state.exists()
