"""Uploads over ASGI: what is held for whom, and what is refused with a reason."""

import hashlib

import httpx
import pytest

from tests.emulator.management.conftest import Principals


async def test_an_uploaded_artifact_is_named_with_its_size(client: httpx.AsyncClient) -> None:
    digest = hashlib.sha256(b"abc").hexdigest()
    answer = await client.put(f"/v1/artifacts/sha256/{digest}", content=b"abc")
    assert (answer.status_code, answer.json()) == (200, {"sha256": digest, "byteSize": 3, "principal": "local"})
    assert (await client.delete(f"/v1/artifacts/sha256/{digest}?principal=other")).status_code == 404
    assert (await client.delete(f"/v1/artifacts/sha256/{digest}")).status_code == 204


@pytest.mark.req("WB-06", "HA-22")
@pytest.mark.parametrize(
    ("names", "status", "code", "message"),
    [
        (
            ("zoe", "local"),
            404,
            "unknown_principal",
            "there is no principal 'Zoe' here: ?principal= is one of local, zoe",
        ),
        (
            tuple(f"p{number}" for number in range(10, 99)),
            404,
            "unknown_principal",
            f"there is no principal 'Zoe' here: ?principal= is one of {', '.join(f'p{n}' for n in range(10, 30))}, ...",
        ),
        ((), 404, "unknown_principal", "there is no principal 'Zoe' here: ?principal= is one of (nobody yet)"),
        (None, 503, "temporarily_unavailable", "nobody can tell"),
    ],
)
async def test_nothing_is_held_for_a_principal_that_the_host_does_not_know(
    client: httpx.AsyncClient,
    principals: Principals,
    names: tuple[str, ...] | None,
    status: int,
    code: str,
    message: str,
) -> None:
    digest = hashlib.sha256(b"abc").hexdigest()
    principals.names = names
    answer = await client.put(f"/v1/artifacts/sha256/{digest}?principal=Zoe", content=b"abc")
    assert (answer.status_code, answer.json()) == (status, {"error": {"code": code, "message": message}})
    assert (await client.delete(f"/v1/artifacts/sha256/{digest}?principal=Zoe")).status_code == 404


@pytest.mark.req("WB-06", "HA-22")
async def test_an_upload_of_a_principal_that_is_gone_can_be_taken_back(
    client: httpx.AsyncClient, principals: Principals
) -> None:
    address = f"/v1/artifacts/sha256/{hashlib.sha256(b'abc').hexdigest()}?principal=zoe"
    assert (await client.put(address, content=b"abc")).status_code == 200
    principals.names = ("local",)
    assert (await client.put(address, content=b"abc")).status_code == 404
    assert (await client.delete(address)).status_code == 204


@pytest.mark.parametrize(
    ("address", "status", "code"),
    [
        ("0" * 64, 422, "digest_mismatch"),
        ("0" * 63, 400, "invalid_request"),
        ("A" * 64, 400, "invalid_request"),
        ("0" * 64 + "?principle=x", 400, "invalid_request"),
        ("0" * 64 + "?principal=x&principal=y", 400, "invalid_request"),
        ("0" * 64 + "?principal=", 400, "invalid_request"),
    ],
)
async def test_a_bad_upload_is_refused_with_a_reason(
    client: httpx.AsyncClient, address: str, status: int, code: str
) -> None:
    answer = await client.put(f"/v1/artifacts/sha256/{address}", content=b"abc")
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
