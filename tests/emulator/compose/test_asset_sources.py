"""Assets fetched by a whole host over https: taken once, checked, and served without their source from then on."""

import asyncio
import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import pytest

from emulator.client import MODULE_WORKER, STATIC_ASSET_BUNDLE, WORKER_DEPLOYMENT, WORKER_VERSION, HostApi
from emulator.client import OperationFailed as Failed
from tests.emulator.artifacts.origins import TestOrigin, ok, origin
from tests.emulator.compose.hosts import TestHost, running_host
from tests.emulator.compose.sites import SPACE, Site, ref

pytestmark = pytest.mark.usefixtures("workerd")

T = TypeVar("T")
FILES = {"index.html": b"<p>page", "css/a.css": b"p {}", "empty": b""}


def offer(place: TestOrigin, files: Mapping[str, bytes], said: Callable[[bytes], bytes] = ok) -> dict[str, str]:
    """Have the origin serve the files and a manifest of them; the artifact. `said` makes answers of bodies."""
    entries = []
    for path, content in files.items():
        place.answers[f"/secret-path/{path}"] = said(content)
        digest = hashlib.sha256(content).hexdigest()
        entries.append({"path": path, "url": place.url(f"/secret-path/{path}"), "sha256": digest, "mediaType": "a/b"})
    manifest = json.dumps({"files": entries}).encode()
    place.answers["/secret-path/manifest"] = ok(manifest)
    return {"url": place.url("/secret-path/manifest"), "sha256": hashlib.sha256(manifest).hexdigest()}


def allowing(place: TestOrigin) -> tuple[str, str]:
    return ("--allow-artifact-origin", f"https://localhost:{place.port},ca={place.ca}")


def make(host: TestHost, artifact: Mapping[str, str]) -> Site:
    api = host.api()
    worker = api.create(MODULE_WORKER, SPACE, "w", {})
    bundle = api.create(STATIC_ASSET_BUNDLE, SPACE, "a", {"artifact": dict(artifact)})
    assets = {"bundle": ref(bundle), "runWorkerFirst": False, "notFoundHandling": "none"}
    version = api.create(WORKER_VERSION, SPACE, "v", {"worker": ref(worker), "handlers": [], "assets": assets})
    weights = [{"workerVersion": ref(version), "weight": 10000}]
    live = api.create(WORKER_DEPLOYMENT, SPACE, "d", {"worker": ref(worker), "versions": weights})
    return Site(host, "w", worker, [worker, bundle, version, live])


@pytest.mark.req("SA-06", "SA-07", "SA-10", "SA-11")
async def test_fetched_files_are_served_updated_and_read_without_their_source(tmp_path: Path) -> None:
    async with origin(tmp_path) as place:
        artifact = offer(place, FILES)

        def first() -> Site:
            with running_host(tmp_path / "h", *allowing(place)) as host:
                site = make(host, artifact)
                assert site.ask("/css/a.css").body == b"p {}"
                host.process.kill()
                return site

        site = await asyncio.to_thread(first)
        assert len(place.requests) == 1 + len(FILES), "each is fetched once"
        assert all(b"accept-encoding: identity" in each.lower() for each in place.requests)

    def second() -> None:
        with running_host(tmp_path / "h") as host:
            again = Site(host, site.name, site.worker)
            assert [again.ask(f"/{path}").body for path in FILES] == list(FILES.values())
            api = host.api()
            bundle = api.read(site.made[1].uid)
            updated = api.update(bundle, bundle.spec)
            assert (updated.observed, updated.generation) == (bundle.observed, 2)
            assert "secret-path" not in json.dumps(updated.observed)
            assert "secret-path" not in host.log.read_text()

    await asyncio.to_thread(second)


@pytest.mark.req("SA-06", "SA-04")
async def test_what_a_source_gives_otherwise_fails_the_operation_and_is_not_held(tmp_path: Path) -> None:
    files = {"index.html": b"<p>"}
    wrong = {
        "other bytes": lambda body: ok(b"!" + body),
        "a status": lambda body: ok(body).replace(b"200 OK", b"203 Odd"),
        "a coding": lambda body: ok(body).replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n"),
        "a redirect": lambda body: b"HTTP/1.1 302 F\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n",
        "a cut": lambda body: ok(body)[:-1],
    }
    async with origin(tmp_path) as place:
        with running_host(tmp_path / "h", *allowing(place)) as host:
            api = host.api()
            for number, said in enumerate(wrong.values()):
                with pytest.raises(Failed, match="artifact_refused"):
                    await asyncio.to_thread(create, api, f"bad-{number}", offer(place, files, said))
            typed = lambda body: ok(body).replace(b"\r\n\r\n", b"\r\nContent-Type: text/evil\r\n\r\n")  # noqa: E731
            await asyncio.to_thread(create, api, "good", offer(place, files, typed))
            good = api.find(SPACE, "good")
            assert good is not None
            assert good.observed["files"][0]["mediaType"] == "a/b", "the manifest's type counts"


@pytest.mark.req("SA-06")
async def test_a_private_source_that_is_not_allowed_is_never_contacted(tmp_path: Path) -> None:
    async with origin(tmp_path) as place:
        artifact = offer(place, FILES)
        with running_host(tmp_path / "h") as host, pytest.raises(Failed, match="artifact_refused"):
            await asyncio.to_thread(create, host.api(), "a", artifact)
        assert place.connections == 0


def create(api: HostApi, name: str, artifact: Mapping[str, str]) -> None:
    api.create(STATIC_ASSET_BUNDLE, SPACE, name, {"artifact": dict(artifact)})
