"""Makes files that look like, or nearly are, a workerd, for the tests of the locator."""

import stat
from pathlib import Path

ELF_MACHINES = {"x86_64": 0x3E, "aarch64": 0xB7}


def write_program(path: Path, content: bytes) -> Path:
    """An executable file, its directories made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def speaking(text: str, status: int = 0) -> bytes:
    """A program that prints `text` and ends with `status`."""
    return f"#!/bin/sh\ncat <<'THE_END'\n{text}\nTHE_END\nexit {status}\n".encode()


def elf_header(machine: int) -> bytes:
    """The first 64 bytes of a 64-bit little-endian ELF program for a processor, and nothing behind them."""
    identity = b"\x7fELF\x02\x01\x01" + bytes(9)
    return identity + (2).to_bytes(2, "little") + machine.to_bytes(2, "little") + bytes(44)


def elf_with_loader(machine: int, loader: str) -> bytes:
    """An ELF program whose one program header names `loader` as its interpreter: executing it looks for that file."""
    name = loader.encode() + b"\0"
    header = bytearray(elf_header(machine))
    header[20:24] = (1).to_bytes(4, "little")  # version
    header[32:40] = (64).to_bytes(8, "little")  # where the program headers begin
    header[52:58] = b"".join(number.to_bytes(2, "little") for number in (64, 56, 1))
    interpreter = b"".join(
        number.to_bytes(size, "little")
        for number, size in ((3, 4), (4, 4), (120, 8), (0, 8), (0, 8), (len(name), 8), (len(name), 8), (1, 8))
    )
    return bytes(header) + interpreter + name
