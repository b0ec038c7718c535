"""Tells whether a file is the pinned workerd and runs here. Knows no place to look and no way to install."""

import errno
import os
import platform
import re
import subprocess
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from emulator.runtime.pins import PROCESSORS, read_pins, user_cache
from emulator.runtime.unusable import MuslSystem, NotProgram, OldGlibc, RuntimeMissing, WrongArchitecture, WrongVersion

VERSION_TIMEOUT_S = 20.0
ELF_MACHINES = {0x03: "i386", 0x28: "arm", 0x3E: "x86_64", 0xB7: "aarch64", 0xF3: "riscv64"}
MACHO_MACHINES = {0x01000007: "x86_64", 0x0100000C: "arm64"}


def check_workerd(path: Path, env: Mapping[str, str]) -> None:
    """Return when `path` is a workerd of the pinned version that runs here, raise the reason otherwise.

    The answer of `workerd --version` (about 20 ms) is remembered in the user's cache per path, size, inode and
    time of change, so that a warm start costs one `stat` and one small read.
    """
    try:
        facts = path.stat()
    except OSError as error:
        raise RuntimeMissing(f"no workerd at {path}: {error.strerror}") from None
    identity = f"{path.absolute()}\n{facts.st_size} {facts.st_ino} {facts.st_mtime_ns} {facts.st_mode}"
    note = user_cache(env) / "checked" / sha256(identity.encode()).hexdigest()[:32]
    version = recall(note)
    if version is None:
        check_header(path)
        version = ask_version(path)
        remember(note, version)
    wanted = read_pins().workerd_date
    if version != wanted:
        raise WrongVersion(path, version, wanted)


def check_header(path: Path) -> None:
    """Raise when the file's first bytes say that it is no program, or one for another machine."""
    try:
        with path.open("rb") as file:
            head = file.read(128)
    except OSError as error:
        raise NotProgram(path, f"unreadable ({error.strerror})") from None
    if head.startswith(b"#!"):
        if b"node" in head.split(b"\n", 1)[0]:
            raise NotProgram(path, "npm's Node.js launcher")
        return
    built_for = target_of(head)
    if built_for is None:
        raise NotProgram(path, "empty" if not head else "neither an ELF nor a Mach-O file")
    system, machine = built_for
    here = platform.machine()
    if system != platform.system() or canonical(machine) != canonical(here):
        raise WrongArchitecture(path, f"{system} on {machine}", f"{platform.system()} on {here}")


def target_of(head: bytes) -> tuple[str, str] | None:
    """(operating system, processor) that a program's first 20 bytes name, or None when it is no program."""
    if head.startswith(b"\x7fELF") and len(head) >= 20:
        number = int.from_bytes(head[18:20], "big" if head[5] == 2 else "little")
        return "Linux", ELF_MACHINES.get(number, f"ELF machine {number}")
    if head.startswith(b"\xcf\xfa\xed\xfe") and len(head) >= 8:
        number = int.from_bytes(head[4:8], "little")
        return "Darwin", MACHO_MACHINES.get(number, f"Mach-O machine {number}")
    return None


def canonical(machine: str) -> str:
    """One name for one processor: `amd64` and `x86_64` are the same."""
    return PROCESSORS.get(machine.lower(), machine.lower())


def ask_version(path: Path) -> str:
    """The date that `workerd --version` prints; raises the reason when the program does not run here."""
    try:
        done = subprocess.run(
            [path, "--version"], capture_output=True, text=True, errors="replace", timeout=VERSION_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        raise NotProgram(path, f"a program that did not answer --version in {VERSION_TIMEOUT_S:.0f} s") from None
    except OSError as error:
        raise reason_not_started(path, error) from None
    found = re.match(r"workerd (\d{4}-\d{2}-\d{2})\s*$", done.stdout)
    if done.returncode == 0 and found:
        return found[1]
    raise reason_failed(path, done.stdout + done.stderr)


def reason_not_started(path: Path, error: OSError) -> Exception:
    """What it means that the system refused to execute an existing file."""
    if error.errno == errno.ENOENT:  # the file is there: what is missing is the loader that it names
        return MuslSystem()
    if error.errno == errno.ENOEXEC:
        return WrongArchitecture(path, "another system", f"{platform.system()} on {platform.machine()}")
    return NotProgram(path, f"not executable ({error.strerror})")


def reason_failed(path: Path, output: str) -> Exception:
    """What it means that the program ended without naming its version."""
    needed = re.findall(r"GLIBC_(\d+(?:\.\d+)*)' not found", output)
    if needed:
        newest = max(needed, key=lambda text: [int(part) for part in text.split(".")])
        return OldGlibc(path, newest, glibc_version() or "an older one")
    if "symbol not found" in output or "ld-musl" in output:
        return MuslSystem()
    first = output.strip().splitlines()[:1]
    return NotProgram(path, f"a program that answers --version with {first[0][:80]!r}" if first else "a silent program")


def glibc_version() -> str | None:
    """The version of the running glibc, like `2.36`; None where there is none (musl, macOS)."""
    try:
        answer = os.confstr("CS_GNU_LIBC_VERSION")
    except (ValueError, OSError):
        return None
    return answer.split()[-1] if answer else None


def recall(note: Path) -> str | None:
    """The remembered version, or None."""
    try:
        return note.read_text("ascii").strip() or None
    except (OSError, ValueError):
        return None


def remember(note: Path, version: str) -> None:
    """Remember a version; a cache that cannot be written only costs time."""
    draft = note.with_suffix(f".{os.getpid()}")
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(version, "ascii")
        draft.replace(note)
    except OSError:
        return
