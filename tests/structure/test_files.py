"""What is committed installs anywhere, from any index, and tells nothing of the machine it was written on."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from emulator.runtime.pins import CARRIED, CARRIED_FILES
from tests.structure.sources import ROOT, tracked_files

MACHINE_PATH = re.compile(r"""(?<![\w.~$}*-])/(?:work|root|home|Users|opt|tmp)/[a-z]""")
ALLOWED_PATHS = {Path("LICENSE")}
HASHED = ("runtime", "dev", "node", "build")


def read_pinned(name: str) -> dict[str, str]:
    """Distribution -> pinned version of one hashed requirements file."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text("utf-8")
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", text, re.MULTILINE))


def test_no_file_names_a_place_of_one_machine() -> None:
    found = [
        f"{path}:{number} {line.strip()[:100]}"
        for path in tracked_files()
        if path not in ALLOWED_PATHS
        for number, line in enumerate((ROOT / path).read_text("utf-8", "replace").splitlines(), 1)
        if MACHINE_PATH.search(line)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", HASHED)
def test_requirements_are_pinned_with_hashes_and_hold_no_address(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.txt").read_text("utf-8")
    assert "://" not in text
    assert not re.search(r"^-", text, re.MULTILINE), "no option but hashes"
    blocks = re.split(r"\n(?=[a-z])", text.strip())
    assert blocks
    assert all(re.match(r"[a-z0-9-]+==\S+", block) and "--hash=sha256:" in block for block in blocks)


def test_the_pinned_runtime_satisfies_every_dependency_and_the_tools_agree_with_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    runtime, dev = read_pinned("runtime"), read_pinned("dev")
    for text in project["dependencies"]:
        wanted = Requirement(text)
        assert wanted.specifier.contains(runtime[wanted.name]), f"{text}: pinned is {runtime[wanted.name]}"
    assert runtime.items() <= dev.items()
    assert read_pinned("build").items() <= dev.items()


def test_the_extra_for_node_is_what_make_installs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (extra,) = map(Requirement, project["optional-dependencies"]["node"])
    assert extra.specifier.contains(read_pinned("node")[extra.name])
    assert Requirement((ROOT / "requirements" / "node.in").read_text("utf-8").strip()) == extra


def test_the_lock_pins_exact_versions_with_hashes_and_no_address() -> None:
    text = (ROOT / "package-lock.json").read_text("utf-8")
    lock = json.loads(text)
    assert lock["lockfileVersion"] == 3
    assert "resolved" not in text
    assert "://" not in text
    packages = {name: entry for name, entry in lock["packages"].items() if name}
    assert all(entry["integrity"].startswith("sha512-") for entry in packages.values())
    wanted = json.loads((ROOT / "package.json").read_bytes())["dependencies"]
    assert {name: packages[f"node_modules/{name}"]["version"] for name in wanted} == wanted


@pytest.mark.parametrize("carried", CARRIED_FILES)
def test_the_carried_npm_files_are_those_of_the_root(carried: str) -> None:
    assert (CARRIED / carried).read_bytes() == (ROOT / CARRIED_FILES[carried]).read_bytes()


def test_npm_runs_no_scripts_and_writes_no_addresses() -> None:
    settings = (ROOT / ".npmrc").read_text("utf-8").splitlines()
    assert {"ignore-scripts=true", "omit-lockfile-registry-resolved=true"} <= set(settings)
    assert "//" not in "".join(settings)
