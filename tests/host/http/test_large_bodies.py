"""A megabyte of JSON is read beside the event loop: nobody else waits for it, and it is read like any other."""

import asyncio
import gc
import json
import threading

import httpx
import pytest

from host.http import bodies
from host.http.bodies import LARGEST_INLINE_BYTES
from host.http.routes import ROOT
from host.model.json import JsonObject, decode_object
from tests.host.api import Api, form_url, ref

KEY = "key-large-body-00001"


def text_of_size(spec_of: str, size: int) -> str:
    """A create whose spec is about that many bytes of the repeated text."""
    start = f'{{"form":"{form_url("ModuleWorker")}","space":"s","name":"w","spec":{{"a":['
    return start + ",".join([spec_of] * (size // (len(spec_of) + 1))) + "]}}"


async def send(api: Api, text: str, path: str = "/resources") -> httpx.Response:
    headers = {"content-type": "application/json", "idempotency-key": KEY}
    return await api.client.post(ROOT + path, content=text, headers=headers)


@pytest.mark.req("HA-12", "HA-02")
@pytest.mark.parametrize("path", ["/resources", "/previews"])
async def test_others_are_answered_while_a_large_body_is_read(
    api: Api, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    entered, released = threading.Event(), threading.Event()

    def decode_slowly(data: bytes) -> JsonObject:
        entered.set()
        assert released.wait(20), "nobody else was served meanwhile"
        return decode_object(data)

    monkeypatch.setattr(bodies, "decode_object", decode_slowly)
    sending = asyncio.create_task(send(api, text_of_size("0", LARGEST_INLINE_BYTES + 100), path))
    await asyncio.to_thread(entered.wait)
    assert (await api.get("/resources")).status_code == 200
    assert not sending.done()
    released.set()
    assert (await sending).status_code in (400, 422)


@pytest.mark.req("HA-12", "HA-02")
@pytest.mark.parametrize("item", ["0", "{}", '"\\u0000"', "[[]]", "1e300", "0.1000000000000000055"])
async def test_as_many_values_as_fit_are_read_and_judged_by_the_form(api: Api, item: str) -> None:
    size = api.engine.limits.max_request_bytes - 200
    answer = await send(api, text_of_size(item, size))
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_spec")
    assert gc.isenabled()
    broken = await send(api, text_of_size(item, size)[:-1])
    assert (broken.status_code, broken.json()["code"]) == (400, "invalid_request")


@pytest.mark.req("HA-51", "HA-52", "WV-04")
async def test_a_large_request_is_compared_like_a_small_one(api: Api) -> None:
    bundle = await api.made("WorkerBundle", "b", {"artifact": api.backend.store_bundle([], [])})
    rows = [[[0] * 64 for _ in range(64)] for _ in range(64)]
    spec = {"worker": ref(await api.worker()), "bundle": ref(bundle), "handlers": [], "vars": {"A": rows}}
    body = {"form": form_url("WorkerVersion"), "space": "s", "name": "v", "spec": spec}
    first = await send(api, json.dumps(body, separators=(",", ":")))
    assert first.status_code in (200, 202), first.text
    again = await send(api, json.dumps(dict(reversed(body.items()))).replace("0, 0]", "-0.0, 0e0]"))
    assert again.json()["id"] == first.json()["id"]
    rows[63][63][63] = 1
    other = await send(api, json.dumps(body))
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")
    operation = await api.settled(first.json()["id"])
    assert operation["status"] == "succeeded"
    assert len((await api.resource(operation["resourceUid"]))["spec"]["vars"]["A"]) == 64
