"""Requests made from the OpenAPI document that a host serves, sent to it over HTTPS: what answers is as described."""

import asyncio
import ssl
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from emulator.client import MODULE_WORKER
from host.http.routes import METHODS, PATHS
from host.http.statuses import STATUS_OF
from host.model.errors import ErrorCode
from tests.emulator.compose.hosts import TestHost, running_host
from tests.host.stateful.requests_of import Sent, requests
from tests.host.stateful.schema_values import Document

pytestmark = pytest.mark.usefixtures("workerd")

ALWAYS = {
    ErrorCode.METHOD_NOT_ALLOWED,
    ErrorCode.NOT_FOUND,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.UNSUPPORTED_MEDIA_TYPE,
}
"""What a spoilt request may get that its operation does not describe."""
BATCH = 20


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestHost]:
    with running_host(tmp_path_factory.mktemp("fuzz") / "h") as started:
        yield started


def document_of(host: TestHost) -> Document:
    token = {"authorization": f"Bearer {host.ready.management_token()}"}
    answer = httpx.get(f"{host.ready.management}/v1/openapi.json", headers=token, trust_env=False)
    assert answer.status_code == 200
    return Document(answer.json())


def judge(document: Document, sent: Sent, answer: httpx.Response) -> None:
    """Fails for a 5xx, a status or body that is not described, or a problem that is none."""
    told = f"{sent} -> {answer.status_code} {answer.text}"
    assert answer.status_code < 500, told
    assert answer.headers["cache-control"] == "no-store", told
    if answer.status_code >= 400:
        judge_problem(document, sent, answer, told)
        return
    described = document.root["paths"][sent.template][sent.method.lower()]["responses"][str(answer.status_code)]
    (media_type, content), *_ = described["content"].items()
    assert answer.headers["content-type"].startswith(media_type), told
    if media_type == "application/json":
        assert document.faults(content["schema"], answer.json()) == [], told
    for name, header in described.get("headers", {}).items():
        assert not header.get("required") or name in answer.headers, told


def judge_problem(document: Document, sent: Sent, answer: httpx.Response, told: str) -> None:
    problem = answer.json()
    assert answer.headers["content-type"] == "application/problem+json", told
    assert document.faults({"$ref": "#/components/schemas/Problem"}, problem) == [], told
    assert problem["status"] == answer.status_code == STATUS_OF[ErrorCode(problem["code"])], told
    if answer.status_code == 405:
        assert answer.headers["allow"] in {", ".join(methods) for methods in METHODS.values()}, told
    responses: Any = document.root["paths"][sent.template].get(sent.method.lower(), {}).get("responses", {})
    if not (sent.is_spoilt and problem["code"] in ALWAYS):
        schema = responses[str(answer.status_code)]["content"]["application/problem+json"]["schema"]
        assert document.faults(schema, problem) == [], told


class Fuzz:
    """Sends batches over a few connections at once and remembers identifiers that were answered."""

    def __init__(self, host: TestHost) -> None:
        self.document = document_of(host)
        self.origin = host.ready.api
        self.tls = ssl.create_default_context(cafile=host.ready.ca)
        uid = host.api().create(MODULE_WORKER, "fuzz", "first", {}).uid
        self.known = (uid, "none", "op-none")
        self.statuses: Counter[int] = Counter()

    def run(self, batches: int) -> None:
        @seed(20261117)
        @settings(
            max_examples=batches,
            deadline=None,
            database=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(st.lists(requests(self.document, self.known), min_size=BATCH, max_size=BATCH))
        def send_batch(batch: list[Sent]) -> None:
            asyncio.run(self._send(batch))

        send_batch()

    async def _send(self, batch: list[Sent]) -> None:
        limits = httpx.Limits(max_connections=4)
        async with httpx.AsyncClient(base_url=self.origin, verify=self.tls, trust_env=False, limits=limits) as client:
            answers = await asyncio.gather(
                *(client.request(each.method, each.url, headers=each.headers, content=each.body) for each in batch)
            )
        for sent, answer in zip(batch, answers, strict=True):
            self.statuses[answer.status_code] += 1
            judge(self.document, sent, answer)


def bear(host: TestHost, count: int) -> None:
    fuzz = Fuzz(host)
    fuzz.run(count // BATCH)
    total = fuzz.statuses.total()
    print(f"{total} requests from the document: {dict(sorted(fuzz.statuses.items()))}")
    assert total >= count
    assert {200, 400, 404} <= set(fuzz.statuses)
    assert "Traceback" not in host.log.read_text()


@pytest.mark.req("HA-01", "HA-08", "HA-13", "HA-16")
def test_answers_are_as_the_document_describes_them(host: TestHost) -> None:
    assert set(document_of(host).root["paths"]) <= set(PATHS.values())
    bear(host, 100)


@pytest.mark.long
@pytest.mark.req("HA-01", "HA-08", "HA-13", "HA-16")
def test_thousands_of_answers_are_as_the_document_describes_them(host: TestHost) -> None:
    bear(host, 3000)
