"""Configurations as workerd reads them."""

import subprocess
from pathlib import Path

from emulator.runtime.config import Binding, Config, Disk, Network, Socket, Worker, quote
from emulator.runtime.kernels import KernelSettings, runner_config

TRICKY = 'back\\slash "quote" line\nreturn\rtab\t nul-free é 😀 ${x} // \''


def test_a_text_literal_escapes_what_ends_or_breaks_it() -> None:
    assert quote('a"b\\c\nd') == '"a\\"b\\\\c\\nd"'


def test_workerd_reads_back_every_character(workerd: Path, tmp_path: Path) -> None:
    worker = Worker(
        "main", {"main.js": f"// {TRICKY!r}\nexport default {{}};"}, {"t.txt": TRICKY}, (Binding.json("J", [TRICKY]),)
    )
    config = Config(
        (worker, Disk("disk", tmp_path), Network("out", ("public",))), (Socket("s", "main"),), ("--no-opt",)
    )
    file = tmp_path / "config.capnp"
    file.write_text(config.render(), "utf-8")
    command = [str(workerd), "compile", "--config-only", str(file)]
    compiled = subprocess.run(command, capture_output=True, check=False)
    assert compiled.returncode == 0, compiled.stderr
    assert TRICKY.encode() in compiled.stdout


def test_a_runners_configuration_is_a_valid_one(workerd: Path, tmp_path: Path) -> None:
    file = tmp_path / "runner.capnp"
    file.write_text(runner_config(KernelSettings(tmp_path), 64).render(), "utf-8")
    compiled = subprocess.run([str(workerd), "compile", "--config-only", str(file)], capture_output=True, check=False)
    assert compiled.returncode == 0, compiled.stderr
    assert b"--max-old-space-size=64" in compiled.stdout
