"""The local certificate authority, judged by a real TLS handshake."""

import asyncio
import errno
import json
import os
import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from emulator.compose.authority import ServerIdentity, server_identity
from emulator.compose.errors import FoundationUnusable


async def handshake(identity: ServerIdentity, name: str) -> None:
    """Serve with the identity and connect as a client that trusts the authority only."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity.certificate, identity.key)
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=context)
    async with server:
        port = server.sockets[0].getsockname()[1]
        client = ssl.create_default_context(cafile=identity.ca)
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client, server_hostname=name)
        writer.close()


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "::1", "order-worker-abcd2345.workers.localhost"])
async def test_clients_that_trust_the_authority_accept_the_server(tmp_path: Path, name: str) -> None:
    await handshake(server_identity(tmp_path / "tls"), name)


async def test_other_names_are_not_vouched_for(tmp_path: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        await handshake(server_identity(tmp_path / "tls"), "example.com")


def test_keys_are_readable_by_the_owner_only(tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    server_identity(folder)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in [folder, *folder.iterdir()]}
    assert modes == {
        "tls": 0o700,
        "ca.key": 0o600,
        "server.key": 0o600,
        "server.json": 0o600,
        "ca.pem": 0o644 & ~_umask(),
        "server.pem": 0o644 & ~_umask(),
    }


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_second_start_changes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    server_identity(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    server_identity(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


async def test_the_server_certificate_is_renewed_before_its_end_under_the_same_authority(tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    long_ago = datetime.now(UTC) - timedelta(days=380)
    first = server_identity(folder, lambda: long_ago)
    old, authority = first.certificate.read_bytes(), first.ca.read_bytes()
    renewed = server_identity(folder)
    assert renewed.certificate.read_bytes() != old
    assert renewed.ca.read_bytes() == authority
    await handshake(renewed, "localhost")


@pytest.mark.parametrize("name", ["server.pem", "server.key", "server.json"])
async def test_a_damaged_server_certificate_is_made_again(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "tls"
    server_identity(folder)
    (folder / name).write_text(json.dumps({"notAfter": 5}))
    await handshake(server_identity(folder), "localhost")


@pytest.mark.parametrize(("lost", "also"), [("ca.key", "server.pem"), ("ca.pem", "server.json")])
def test_an_incomplete_authority_names_what_is_missing(tmp_path: Path, lost: str, also: str) -> None:
    folder = tmp_path / "tls"
    server_identity(folder)
    for name in (lost, also):
        (folder / name).unlink()
    kept = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(FoundationUnusable, match=rf"tls/{lost} is missing.*restore it"):
        server_identity(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == kept


def test_an_authority_that_cannot_be_read_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "tls"
    server_identity(folder)
    (folder / "server.pem").unlink()
    read_bytes = Path.read_bytes

    def refuse(path: Path) -> bytes:
        if path.name == "ca.key":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(FoundationUnusable, match=r"cannot read .*tls/ca\.key: Permission denied: let the user"):
        server_identity(folder)


@pytest.mark.parametrize("name", ["ca.pem", "ca.key"])
def test_a_damaged_authority_is_reported_and_never_replaced(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "tls"
    server_identity(folder)
    (folder / name).write_text("damaged")
    (folder / "server.pem").unlink()
    with pytest.raises(FoundationUnusable, match="damaged"):
        server_identity(folder)
    assert (folder / name).read_text() == "damaged"
