"""The host key's file: private, made once, never replaced silently."""

import stat
from pathlib import Path

import pytest

from emulator.compose.errors import FoundationUnusable
from emulator.compose.host_key import load_keys


@pytest.mark.req("HA-61")
def test_the_key_is_made_once_and_for_the_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "host.key"
    sealed = load_keys(path).seal("text", "row")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load_keys(path).unseal(sealed, "row") == "text"


@pytest.mark.req("HA-61")
def test_a_key_that_others_may_read_or_that_is_damaged_stops_the_start(tmp_path: Path) -> None:
    path = tmp_path / "host.key"
    load_keys(path)
    path.chmod(0o644)
    with pytest.raises(FoundationUnusable, match="chmod 600"):
        load_keys(path)
    path.chmod(0o600)
    path.write_bytes(b"short")
    with pytest.raises(FoundationUnusable, match="damaged"):
        load_keys(path)
