"""Each way in which a file is no usable workerd has its own sentence."""

import os
import platform
import stat
from collections.abc import Mapping
from pathlib import Path

import pytest

from emulator.runtime.binary import check_workerd
from emulator.runtime.pins import read_pins, user_cache, workerd_in
from emulator.runtime.unusable import (
    MuslSystem,
    NotProgram,
    OldGlibc,
    RuntimeMissing,
    RuntimeUnusable,
    UnsupportedPlatform,
    WrongArchitecture,
    WrongVersion,
)
from tests.emulator.runtime.programs import ELF_MACHINES, elf_header, elf_with_loader, speaking, write_program

HERE = platform.machine()
LINUX_ONLY = pytest.mark.skipif(platform.system() != "Linux", reason="executes ELF files")


@pytest.fixture
def env(tmp_path: Path) -> Mapping[str, str]:
    return {"XDG_CACHE_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path)}


def refusal(path: Path, env: Mapping[str, str]) -> RuntimeUnusable:
    """Why `path` is refused; its sentence is one line."""
    with pytest.raises(RuntimeUnusable) as caught:
        check_workerd(path, env)
    assert "\n" not in str(caught.value)
    return caught.value


def test_a_program_that_names_the_pinned_version_is_taken(tmp_path: Path, env: Mapping[str, str]) -> None:
    check_workerd(write_program(tmp_path / "workerd", speaking(f"workerd {read_pins().workerd_date}")), env)


def test_the_real_workerd_is_taken(workerd: Path, env: Mapping[str, str]) -> None:
    check_workerd(workerd, env)


def test_a_missing_file_is_said_to_be_missing(tmp_path: Path, env: Mapping[str, str]) -> None:
    reason = refusal(tmp_path / "workerd", env)
    assert isinstance(reason, RuntimeMissing)
    assert "no workerd at" in str(reason)


def test_another_version_is_named_with_the_wanted_one(tmp_path: Path, env: Mapping[str, str]) -> None:
    reason = refusal(write_program(tmp_path / "workerd", speaking("workerd 2025-01-02")), env)
    assert isinstance(reason, WrongVersion)
    assert "2025-01-02" in str(reason)
    assert read_pins().workerd_date in str(reason)


def test_another_processor_is_told_from_the_header_without_running_the_file(
    tmp_path: Path, env: Mapping[str, str]
) -> None:
    other = "aarch64" if HERE == "x86_64" else "x86_64"
    reason = refusal(write_program(tmp_path / "workerd", elf_header(ELF_MACHINES[other])), env)
    assert isinstance(reason, WrongArchitecture)
    assert f"built for Linux on {other}" in str(reason)
    assert HERE in str(reason)


def test_a_program_of_another_system_is_told_from_the_header(tmp_path: Path, env: Mapping[str, str]) -> None:
    if platform.system() == "Darwin":
        head, built_for = elf_header(ELF_MACHINES["x86_64"]), "Linux"
    else:
        head, built_for = b"\xcf\xfa\xed\xfe\x0c\x00\x00\x01" + bytes(64), "Darwin"
    reason = refusal(write_program(tmp_path / "workerd", head), env)
    assert isinstance(reason, WrongArchitecture)
    assert built_for in str(reason)


@LINUX_ONLY
def test_a_header_with_nothing_behind_it_does_not_run(tmp_path: Path, env: Mapping[str, str]) -> None:
    reason = refusal(write_program(tmp_path / "workerd", elf_header(ELF_MACHINES[HERE])), env)
    assert isinstance(reason, WrongArchitecture | NotProgram)


@LINUX_ONLY
def test_a_program_whose_loader_is_absent_means_a_system_without_glibc(tmp_path: Path, env: Mapping[str, str]) -> None:
    program = elf_with_loader(ELF_MACHINES[HERE], "/lib64/ld-that-is-nowhere.so.2")
    reason = refusal(write_program(tmp_path / "workerd", program), env)
    assert isinstance(reason, MuslSystem)
    assert "musl" in str(reason)


def test_relocation_errors_of_musl_are_understood(tmp_path: Path, env: Mapping[str, str]) -> None:
    said = "Error relocating workerd: fcntl64: symbol not found"
    assert isinstance(refusal(write_program(tmp_path / "workerd", speaking(said, 127)), env), MuslSystem)


def test_an_old_glibc_is_told_with_the_newest_needed_version(tmp_path: Path, env: Mapping[str, str]) -> None:
    said = "\n".join(
        f"workerd: /lib/libc.so.6: version `GLIBC_{version}' not found (required by workerd)"
        for version in ("2.9", "2.35", "2.34")
    )
    reason = refusal(write_program(tmp_path / "workerd", speaking(said, 1)), env)
    assert isinstance(reason, OldGlibc)
    assert "glibc 2.35 or newer" in str(reason)


@LINUX_ONLY
def test_the_real_loader_s_complaint_of_an_old_glibc_is_understood(tmp_path: Path, env: Mapping[str, str]) -> None:
    program = Path("/bin/true").read_bytes()
    if b"GLIBC_2.2.5\0" not in program and b"GLIBC_2.17\0" not in program:
        pytest.skip("this system's /bin/true is not built against glibc")
    program = program.replace(b"GLIBC_2.2.5\0", b"GLIBC_9.9.5\0").replace(b"GLIBC_2.17\0", b"GLIBC_9.17\0")
    reason = refusal(write_program(tmp_path / "workerd", program), env)
    assert isinstance(reason, OldGlibc)
    assert "glibc 9." in str(reason)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty"),
        (b"hello", "neither an ELF nor a Mach-O file"),
        (b"#!/usr/bin/env node\nrequire('x')\n", "Node.js launcher"),
        (speaking("curl 8.0"), "answers --version with 'curl 8.0'"),
        (speaking(""), "silent"),
    ],
)
def test_a_file_that_is_not_workerd_is_described(
    content: bytes, said: str, tmp_path: Path, env: Mapping[str, str]
) -> None:
    reason = refusal(write_program(tmp_path / "workerd", content), env)
    assert isinstance(reason, NotProgram)
    assert said in str(reason)


def test_a_file_without_permission_to_execute_is_described(tmp_path: Path, env: Mapping[str, str]) -> None:
    path = write_program(tmp_path / "workerd", speaking(f"workerd {read_pins().workerd_date}"))
    path.chmod(stat.S_IRUSR | stat.S_IWUSR)
    assert "not executable" in str(refusal(path, env))


def test_a_checked_program_is_not_run_again_until_it_changes(tmp_path: Path, env: Mapping[str, str]) -> None:
    ran = tmp_path / "ran"
    content = f"#!/bin/sh\necho x >>{ran}\necho 'workerd {read_pins().workerd_date}'\n".encode()
    path = write_program(tmp_path / "workerd", content)
    check_workerd(path, env)
    check_workerd(path, env)
    assert ran.read_text().count("x") == 1
    os.utime(path, ns=(1, 1))
    check_workerd(path, env)
    assert ran.read_text().count("x") == 2


def test_a_cache_that_cannot_be_written_only_costs_time(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    env = {"XDG_CACHE_HOME": str(tmp_path / "file")}
    check_workerd(write_program(tmp_path / "workerd", speaking(f"workerd {read_pins().workerd_date}")), env)
    assert user_cache(env).parent == tmp_path / "file"


@pytest.mark.parametrize(
    ("system", "machine", "package"),
    [
        ("Linux", "x86_64", "workerd-linux-64"),
        ("Linux", "aarch64", "workerd-linux-arm64"),
        ("Darwin", "arm64", "workerd-darwin-arm64"),
        ("Darwin", "x86_64", "workerd-darwin-64"),
    ],
)
def test_the_program_comes_from_the_platform_s_own_package(system: str, machine: str, package: str) -> None:
    assert workerd_in(Path("m"), system, machine) == Path("m") / "@cloudflare" / package / "bin" / "workerd"


def test_windows_is_pointed_to_wsl(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedPlatform, match="WSL2"):
        workerd_in(tmp_path, "Windows", "AMD64")
    with pytest.raises(UnsupportedPlatform, match="there is no workerd for Linux on riscv64"):
        workerd_in(tmp_path, "Linux", "riscv64")
