"""The token file: read strictly, read again when it changes, written by the command line."""

import os
import stat
from pathlib import Path

import pytest
from starlette.datastructures import Headers

from emulator.cli import main
from emulator.cli.errors import ExitCode
from emulator.compose.errors import SurroundingsWrong
from emulator.compose.token_file import TokenFile, TokenFileWrong, add_token, authenticator_of, parse_table
from host.http.authentication import TokenAuthentication
from host.model.digest import sha256_hex
from host.model.errors import CallerError, HostError
from host.model.records import Principal, Right

HASH = "sha256:" + "0" * 64
GOOD = f'[principals.alice]\ntokens = ["{HASH}"]\nspaces = ["s"]\nrights = ["read"]\n'


def bearer(token: str) -> Headers:
    return Headers({"authorization": f"Bearer {token}"})


def touched(path: Path) -> None:
    """Give the file a time of its own: two writes may fall into one tick."""
    now = path.stat().st_mtime_ns
    os.utime(path, ns=(now + 1_000_000, now + 1_000_000))


@pytest.mark.req("HA-21", "HA-22")
def test_a_principal_has_several_tokens_and_stays_itself(tmp_path: Path) -> None:
    path = tmp_path / "tokens.toml"
    first, second = add_token(path, "alice"), add_token(path, "alice")
    other = add_token(path, "bob.b")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for token in (first, second, other):
        assert token not in path.read_text()
    authenticator = authenticator_of(path)
    assert list(authenticator.schemes) == ["Bearer"]
    assert authenticator.authenticate(bearer(first)) == authenticator.authenticate(bearer(second)) == Principal("alice")
    assert authenticator.authenticate(bearer(other)) == Principal("bob.b")


@pytest.mark.req("HA-22")
def test_every_principal_of_the_file_is_known_with_a_token_or_without(tmp_path: Path) -> None:
    path = tmp_path / "tokens.toml"
    path.write_text(GOOD + '[principals.bob]\ntokens = []\nspaces = "*"\nrights = []\n')
    authenticator = authenticator_of(path)
    assert sorted(authenticator.known_principals()) == ["alice", "bob"]
    path.write_text(GOOD)
    touched(path)
    assert sorted(authenticator.known_principals()) == ["alice"]
    path.unlink()
    with pytest.raises(HostError):
        authenticator.known_principals()
    assert list(authenticator_of(None).known_principals()) == ["local"]


@pytest.mark.req("HA-21")
@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("authorization", "Bearer wrong")],
        [("authorization", "Basic {}")],
        [("authorization", "{}")],
        [("authorization", "Bearer {}, Bearer {}")],
        [("authorization", "Bearer {}"), ("authorization", "Bearer {}")],
        [("authorization", "Bearer é")],
    ],
)
def test_anything_but_one_right_token_is_nobody(tmp_path: Path, headers: list[tuple[str, str]]) -> None:
    path = tmp_path / "tokens.toml"
    token = add_token(path, "alice")
    raw = [(name.encode(), value.replace("{}", token).encode("latin-1")) for name, value in headers]
    with pytest.raises(CallerError, match="unauthenticated"):
        authenticator_of(path).authenticate(Headers(raw=raw))


@pytest.mark.req("HA-52", "HA-21")
def test_a_change_of_the_file_holds_from_the_next_request(tmp_path: Path) -> None:
    path = tmp_path / "tokens.toml"
    token = add_token(path, "alice")
    authenticator = authenticator_of(path)
    assert authenticator.authenticate(bearer(token)).rights == frozenset(Right)
    path.write_text(path.read_text().replace('"read", "change", "refer"', '"read"').replace('"*"', '["s"]'))
    touched(path)
    assert authenticator.authenticate(bearer(token)) == Principal("alice", frozenset({Right.READ}), frozenset({"s"}))
    good = path.read_text()
    path.write_text("not TOML")
    touched(path)
    for _ in range(2):
        with pytest.raises(HostError):
            authenticator.authenticate(bearer(token))
    path.unlink()
    with pytest.raises(HostError):
        authenticator.authenticate(bearer(token))
    path.write_text(good.replace(sha256_hex(token.encode()), "0" * 64))
    with pytest.raises(CallerError):
        authenticator.authenticate(bearer(token))


@pytest.mark.req("HA-21")
@pytest.mark.parametrize(
    "text",
    [
        "x = 1",
        "principals = 1",
        GOOD.replace("alice", '"a b"'),
        GOOD.replace('rights = ["read"]\n', ""),
        GOOD.replace('["read"]', '["write"]'),
        GOOD.replace('["read"]', '"read"'),
        GOOD.replace('["s"]', '["a/b"]'),
        GOOD.replace('["s"]', '"s"'),
        GOOD.replace("sha256:", ""),
        GOOD.replace("sha256:0", "sha256:X"),
        GOOD + "more = 1",
        GOOD + GOOD.replace("alice", "bob"),
    ],
)
def test_a_file_that_is_not_exact_stops_the_start(tmp_path: Path, text: str) -> None:
    parse_table(GOOD)
    with pytest.raises(TokenFileWrong):
        parse_table(text)
    path = tmp_path / "tokens.toml"
    path.write_text(text)
    with pytest.raises(SurroundingsWrong, match="token file"):
        TokenFile.load(path)


@pytest.mark.req("HA-22")
def test_a_new_token_leaves_the_rest_of_the_file_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "tokens.toml"
    path.write_text(
        "# ours\n"
        + GOOD
        + f'\n[principals.bob] # b\ntokens = [\n  "{"sha256:" + "1" * 64}",\n]\nspaces = []\nrights = []\n'
    )
    before = parse_table(path.read_text())
    token = add_token(path, "bob")
    after = parse_table(path.read_text())
    assert after.principals == {
        **before.principals,
        sha256_hex(token.encode()): Principal("bob", frozenset(), frozenset()),
    }
    assert path.read_text().startswith("# ours\n")
    with pytest.raises(SurroundingsWrong):
        add_token(path, "a b")


def test_the_command_prints_the_token_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "tokens.toml"
    assert main(["token", "new", "--file", str(path), "--principal", "alice"]) == ExitCode.DONE
    token = capsys.readouterr().out.strip()
    assert isinstance(authenticator_of(path), TokenAuthentication)
    assert authenticator_of(path).authenticate(bearer(token)).id == "alice"
    assert main(["token", "new", "--file", str(tmp_path), "--principal", "alice"]) == ExitCode.USAGE
    assert main(["serve", "--auth", "password"]) == ExitCode.USAGE
    assert main(["serve", "--auth", "tokens:"]) == ExitCode.USAGE


def test_the_fault_points_of_the_whole_host_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["faults", "list"]) == ExitCode.DONE
    listed = capsys.readouterr().out
    for name in ("host.accept.before_commit", "host.bundle.after_file", "host.replenish.after_commit"):
        assert name in listed
