"""The host key in its file: made at the first start, readable by the owner alone, in no database (HA-61)."""

import os
import stat
from pathlib import Path

from emulator.compose.authority import write_private
from emulator.compose.errors import FoundationUnusable
from host.model.private_keys import KEY_BYTES, PrivateKeys


def load_keys(path: Path) -> PrivateKeys:
    """The keys of the file, made when it is absent. Raises `FoundationUnusable` for a damaged or readable one.

    A file that was lost is made anew: what the old key sealed is lost, and says so where it is needed (HA-65).
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        write_private(path, os.urandom(KEY_BYTES))
        return load_keys(path)
    except OSError as error:
        raise FoundationUnusable(f"cannot read the host key {path}: {error.strerror}") from error
    with os.fdopen(handle, "rb") as file:
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        material = file.read(KEY_BYTES + 1)
    if mode & 0o077:
        raise FoundationUnusable(f"the host key {path} is readable by others: chmod 600 {path}")
    if len(material) != KEY_BYTES:
        raise FoundationUnusable(f"the host key {path} is damaged: restore it, or remove it and lose the secrets")
    return PrivateKeys(material)
