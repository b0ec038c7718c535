"""What other hosts got wrong about JSON, tried here: the rows J of the public cases, through the Host API."""

import json
import time

import pytest

from host.http.routes import ROOT
from host.model.json import MAX_DEPTH, canonical_text, decode
from tests.host.api import Api, form_url, ref

KEY = "key-json-cases-0001"


async def version_with(api: Api, number: str, key: str, place: str) -> tuple[int, str]:
    """Status and Operation or code of the create of a Version whose `vars` hold this literal."""
    worker, bundle = place.split(" ")
    spec = f'{{"worker":{json.dumps(ref(worker))},"bundle":{json.dumps(ref(bundle))},"handlers":[],"vars":{{"A":{number}}}}}'
    text = f'{{"form":"{form_url("WorkerVersion")}","space":"s","name":"v","spec":{spec}}}'
    headers = {"content-type": "application/json", "idempotency-key": key}
    answer = await api.client.post(f"{ROOT}/resources", content=text, headers=headers)
    return answer.status_code, answer.json().get("id", answer.json().get("code"))


async def place_for_versions(api: Api) -> str:
    bundle = await api.made("WorkerBundle", "b", {"artifact": api.backend.store_bundle([], [])})
    return f"{await api.worker()} {bundle}"


async def send(api: Api, spec: bytes) -> tuple[int, str, float]:
    start = f'{{"form":"{form_url("ModuleWorker")}","space":"s","name":"w","spec":'.encode()
    began_s = time.perf_counter()
    headers = {"content-type": "application/json", "idempotency-key": KEY}
    answer = await api.client.post(f"{ROOT}/resources", content=start + spec + b"}", headers=headers)
    answer.content.decode("utf-8")
    return answer.status_code, answer.json()["code"], time.perf_counter() - began_s


@pytest.mark.req("HA-51")
def test_j01_members_are_ordered_by_utf16_units() -> None:
    one, other = '{"\ufffd":1,"\U0001f600":2}', '{"\U0001f600":2,"\ufffd":1}'
    assert canonical_text(decode(one)) == canonical_text(decode(other)) == other


@pytest.mark.req("HA-02")
@pytest.mark.parametrize("spec", ['"\\ud800"', '{"\\ud800":1}', "[" * 10 + '"\\ud800"' + "]" * 10])
async def test_j03_a_lone_surrogate_is_a_bad_request(api: Api, spec: str) -> None:
    assert (await send(api, spec.encode()))[:2] == (400, "invalid_request")


@pytest.mark.req("HA-51", "WV-04")
async def test_j04_large_integers_are_neither_folded_nor_rounded(api: Api) -> None:
    place = await place_for_versions(api)
    assert await version_with(api, "9007199254740993", KEY, place) == (422, "invalid_spec")
    status, first = await version_with(api, "9007199254740992", KEY, place)
    assert status == 200
    assert await version_with(api, "9007199254740992.0", KEY, place) == (200, first)
    assert await version_with(api, "9007199254740993", KEY, place) == (409, "idempotency_conflict")


@pytest.mark.req("HA-51", "WV-06")
async def test_j06_minus_zero_is_zero(api: Api) -> None:
    place = await place_for_versions(api)
    status, first = await version_with(api, "-0", KEY, place)
    assert status == 200
    for spelling in ("-0.0", "0", "0.0", "0e5"):
        assert await version_with(api, spelling, KEY, place) == (200, first)
    assert await version_with(api, "1", KEY, place) == (409, "idempotency_conflict")


@pytest.mark.req("HA-51")
def test_j07_texts_are_not_normalised() -> None:
    both = decode('{"\u00e9":1,"e\u0301":2}')
    assert isinstance(both, dict)
    assert len(both) == 2
    assert canonical_text(both) != canonical_text({"\u00e9": 1})


@pytest.mark.req("HA-02")
@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"[1,[NaN]]", b'{"a":-Infinity}'])
async def test_j09_what_is_no_number_is_a_bad_request(api: Api, number: bytes) -> None:
    assert (await send(api, number))[:2] == (400, "invalid_request")


@pytest.mark.req("HA-02")
@pytest.mark.parametrize(
    "spec", [b'{"a":1,"a":1}', b'{"x":{"a":1,"b":2,"a":3}}', b'[[{"":0,"":0}]]', b'{"\\u0061":1,"a":2}']
)
async def test_j11_a_repeated_member_is_a_bad_request(api: Api, spec: bytes) -> None:
    assert (await send(api, spec))[:2] == (400, "invalid_request")
    assert not api.backend.calls


@pytest.mark.req("HA-02")
@pytest.mark.parametrize("spec", [b"9" * 4301, b'["x",' + b"9" * 4301 + b"]", b"-" + b"9" * 4301])
async def test_j13_an_endless_integer_is_refused_at_once(api: Api, spec: bytes) -> None:
    status, code, taken_s = min([await send(api, spec) for _ in range(3)], key=lambda each: each[2])
    assert (status, code) == (400, "invalid_request")
    assert taken_s < 0.1


@pytest.mark.req("HA-02")
@pytest.mark.parametrize("spec", [b"[" * 20_000, b"[" * 20_000 + b"]" * 20_000, b'{"a":' * 20_000])
async def test_j14_depth_has_a_limit_of_its_own(api: Api, spec: bytes) -> None:
    assert (await send(api, spec))[:2] == (400, "invalid_request")
    deepest = b"[" * (MAX_DEPTH - 1) + b"]" * (MAX_DEPTH - 1)
    assert (await send(api, deepest))[1] == "invalid_request", "a spec is an object"
    assert (await send(api, b'{"a":' + deepest[1:-1] + b"}"))[:2] == (422, "invalid_spec")
    assert (await send(api, b'{"a":' + deepest + b"}"))[:2] == (400, "invalid_request")


@pytest.mark.req("HA-02")
@pytest.mark.parametrize("text", [b'"\xff"', b'"\xe2\x82', b'"\xed\xa0\x80"', b'"\xc0\x80"'])
async def test_a10_broken_utf8_is_a_bad_request(api: Api, text: bytes) -> None:
    assert (await send(api, text))[:2] == (400, "invalid_request")


@pytest.mark.req("HA-04", "HA-07")
@pytest.mark.parametrize("name", ["a\x00", "a%2Fb", "a%252Fb", "a b", "a/b", ""])
async def test_a08_a09_names_are_segments_as_they_are(api: Api, name: str) -> None:
    for member in ("name", "space"):
        body = {"form": form_url("ModuleWorker"), "space": "s", "name": "w", "spec": {}, member: name}
        answer = await api.client.post(f"{ROOT}/resources", json=body, headers={"idempotency-key": KEY})
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
        filtered = await api.get("/resources", **{member: name})
        assert (filtered.status_code, filtered.json()["code"]) == (400, "invalid_request")
    assert (await api.get("/resources")).json()["items"] == []
