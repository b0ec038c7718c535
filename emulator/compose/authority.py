"""The local certificate authority: `ca.pem` for clients, a server certificate renewed in time. Knows no listener.

The `cryptography` package is imported only when something has to be made, which is rare: a start must be fast.
"""

import json
import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from emulator.compose.errors import FoundationUnusable

SERVER_NAMES = ("localhost", "127.0.0.1", "::1", "*.workers.localhost")
"""What the server certificate is good for."""

_RENEW_BEFORE = timedelta(days=30)


def _system_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """Files a TLS server and its clients need; `key` is mode 0600."""

    ca: Path
    certificate: Path
    key: Path


def server_identity(folder: Path, now: Callable[[], datetime] = _system_now) -> ServerIdentity:
    """Load the authority of `folder`; made on first use, its server certificate renewed when near its end.

    Certificates are judged by system time, as clients do. Raises `FoundationUnusable` when the authority is
    damaged, incomplete or not readable: clients trust it, so it is never replaced silently.
    """
    identity = ServerIdentity(folder / "ca.pem", folder / "server.pem", folder / "server.key")
    ca_key = folder / "ca.key"
    folder.mkdir(mode=0o700, exist_ok=True)
    if _is_current(folder, identity, now()):
        return identity
    from emulator.compose import certificates

    if not identity.ca.exists():
        if identity.certificate.exists():
            raise _incomplete(identity.ca, folder)
        made = certificates.make_authority(now())
        write_private(ca_key, made.key)
        write_private(identity.ca, made.certificate, mode=0o644)
    try:
        issued = certificates.issue_server(identity.ca.read_bytes(), ca_key.read_bytes(), SERVER_NAMES, now())
    except FileNotFoundError as error:
        raise _incomplete(Path(error.filename), folder) from error
    except OSError as error:
        raise FoundationUnusable(
            f"cannot read {error.filename}: {error.strerror}: let the user who runs takohost own and read {folder}"
        ) from error
    except (ValueError, TypeError) as error:
        raise FoundationUnusable(
            f"the certificate authority in {folder} is damaged: restore or remove that folder"
        ) from error
    write_private(identity.key, issued.key)
    write_private(identity.certificate, issued.certificate, mode=0o644)
    term = {"names": list(SERVER_NAMES), "notAfter": issued.not_after.isoformat()}
    write_private(folder / "server.json", json.dumps(term).encode())
    return identity


def _incomplete(missing: Path, folder: Path) -> FoundationUnusable:
    return FoundationUnusable(
        f"{missing} is missing, the rest of the certificate authority is there: restore it, or remove {folder} and let"
        " clients trust a new one"
    )


def write_private(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Replace a file atomically and durably; nobody else can read it at any moment unless `mode` says so."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def _is_current(folder: Path, identity: ServerIdentity, now: datetime) -> bool:
    """Whether the server certificate names all we serve, is far from its end, and fits its key."""
    try:
        term = json.loads((folder / "server.json").read_bytes())
        if term["names"] != list(SERVER_NAMES):
            return False
        if datetime.fromisoformat(term["notAfter"]) - now < _RENEW_BEFORE:
            return False
        ssl.create_default_context(cafile=identity.ca)
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(identity.certificate, identity.key)
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return True
