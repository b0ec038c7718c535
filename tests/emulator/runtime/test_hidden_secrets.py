"""Values of secrets in what Workers print, on real workerd: in which spellings they are hidden, and in which they cannot."""

import base64
import json
from dataclasses import replace
from urllib.parse import quote

import pytest

from emulator.runtime.app_log import AppLog
from tests.emulator.runtime.gateways import Ingress, handler
from tests.emulator.runtime.test_app_log import lines

SECRETS = ['word "of"\nhonour\\', "S3cr3t/key+with?chars&more", "clé ключ 鍵 🔑!"]
SPELLINGS = {
    "itself": "s",
    "JSON": "JSON.stringify(s)",
    "JSON in JSON": "JSON.stringify({ a: JSON.stringify([s]) })",
    "JSON in JSON in JSON": "JSON.stringify({ a: JSON.stringify({ b: JSON.stringify([s]) }) })",
    "an object that is printed": "({ a: JSON.stringify({ b: JSON.stringify([s]) }) })",
    "a URL": "'https://x.example/?q=' + encodeURIComponent(s) + '&x=1'",
    "base64": "bytes(s).toBase64()",
    "base64url": "bytes(s).toBase64({ alphabet: 'base64url', omitPadding: true })",
}


async def printed(ingress: Ingress, said: AppLog, secrets: list[str], *expressions: str) -> list[str]:
    """What the host's log has of these expressions of the secret `s`, one after the other for each secret."""
    body = "".join(f"for (const s of Object.values(env)) console.log({each});" for each in expressions)
    version = await ingress.version("v1", handler(body, before="const bytes = (s) => new TextEncoder().encode(s);"))
    named = {f"KEY{number}": secret for number, secret in enumerate(secrets)}
    await ingress.serve((replace(version, secrets=named), 10000))
    await ingress.client.get("/")
    return [line.message for line in await lines(said, len(secrets) * len(expressions))]


def spelled(secret: str) -> list[str]:
    """All spellings, made on this side."""
    escaped = [secret]
    for _ in range(3):
        escaped.append(json.dumps(escaped[-1], ensure_ascii=False)[1:-1])
    return [*escaped, quote(secret, safe="!'()*"), base64.b64encode(secret.encode()).decode().rstrip("=")]


@pytest.mark.req("HA-61", "MW-15")
@pytest.mark.parametrize("way", SPELLINGS)
async def test_a_secret_is_hidden_in_every_spelling_that_code_comes_to_by_itself(
    ingress: Ingress, said: AppLog, way: str
) -> None:
    for secret, line in zip(SECRETS, await printed(ingress, said, SECRETS, SPELLINGS[way]), strict=True):
        assert "[secret]" in line
        assert not [text for text in spelled(secret) if text in line]


@pytest.mark.req("HA-61")
async def test_a_hidden_spelling_leaves_what_is_around_it(ingress: Ingress, said: AppLog) -> None:
    found = await printed(ingress, said, SECRETS[:1], SPELLINGS["JSON in JSON in JSON"], SPELLINGS["a URL"])
    assert found == [r'{"a":"{\"b\":\"[\\\"[secret]\\\"]\"}"}', "https://x.example/?q=[secret]&x=1"]


@pytest.mark.req("HA-61")
@pytest.mark.parametrize("around", ["", "u", "us", "user:"])
async def test_the_base64_of_a_longer_text_has_at_most_the_edges_of_a_secret(
    ingress: Ingress, said: AppLog, around: str
) -> None:
    expression = f"'Basic ' + bytes({around!r} + s + {around!r}).toBase64()"
    for secret, line in zip(SECRETS, await printed(ingress, said, SECRETS, expression), strict=True):
        assert "[secret]" in line
        rest = line.removeprefix("Basic ").replace("[secret]", "")
        assert len(rest) <= 2 * len(base64.b64encode(around.encode())) + 6, (secret, line)


@pytest.mark.req("HA-61")
@pytest.mark.parametrize("around", ["", "u", "us", "user:"])
async def test_what_btoa_makes_of_a_secret_is_hidden(ingress: Ingress, said: AppLog, around: str) -> None:
    """It takes characters for bytes, so it makes another text than the base64 of UTF-8."""
    secret = "h\u00f6chst geheim \u00e9\u00ff"
    [line] = await printed(ingress, said, [secret], f"'Basic ' + btoa({around!r} + s + {around!r})")
    assert "[secret]" in line
    rest = line.removeprefix("Basic ").replace("[secret]", "")
    assert len(rest) <= 2 * len(base64.b64encode(around.encode())) + 6, line


@pytest.mark.req("HA-61")
async def test_short_secrets_hide_no_other_words(ingress: Ingress, said: AppLog) -> None:
    [line] = await printed(ingress, said, ["abc"], "'YWJj ' + s")
    assert line == "YWJj [secret]", "the base64 of three characters is any word"


@pytest.mark.req("HA-61", "MW-15")
async def test_tampering_with_what_spells_a_secret_shows_none(ingress: Ingress, said: AppLog) -> None:
    tamper = (
        "JSON.stringify = () => '\"x\"'; globalThis.encodeURIComponent = () => 'x';"
        "String.prototype.indexOf = String.prototype.replaceAll = Uint8Array.prototype.toBase64 = () => -1;"
        "Object.defineProperty(Array.prototype, 0, { set() {}, get: () => 'x', configurable: true });"
    )
    version = await ingress.version("v1", handler("console.log('a', env.KEY, 'b');", before=tamper))
    await ingress.serve((replace(version, secrets={"KEY": SECRETS[0]}), 10000))
    await ingress.client.get("/")
    assert [line.message for line in await lines(said, 1)] == ["a [secret] b"]
