"""Workers with static assets on a real host: made by name, asked byte for byte."""

import http.client
import json
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from emulator.client import (
    MODULE_WORKER,
    STATIC_ASSET_BUNDLE,
    WORKER_BUNDLE,
    WORKER_DEPLOYMENT,
    WORKER_ENDPOINT,
    WORKER_VERSION,
    Management,
    Resource,
)
from emulator.demo.deploy import upload_bundle
from emulator.demo.fixture import FixtureVersion, ModuleSource
from emulator.runtime.addresses import worker_hostname
from tests.emulator.compose.hosts import JS, TestHost

TIMEOUT_S = 20.0
SPACE = "test"
HELD = "https://held.takohost.invalid/sha256/"


@dataclass(frozen=True)
class Asset:
    content: bytes
    media_type: str = "text/plain"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Site:
    """One Worker and what was made for it."""

    host: TestHost
    name: str
    worker: Resource
    made: list[Resource] = field(default_factory=list)
    endpoint: Resource | None = None
    """Asked at its address over TLS, when there is one."""

    @property
    def hostname(self) -> str:
        return self.endpoint.output["hostname"] if self.endpoint else worker_hostname(self.name, self.worker.uid)

    def ask(self, target: str, method: str = "GET", *fields: str, body: bytes = b"") -> Answer:
        """The answer to exactly this request target."""
        with self._connect() as connection:
            lines = [f"{method} {target} HTTP/1.1", f"Host: {self.hostname}", "Connection: close", *fields]
            connection.sendall("\r\n".join((*lines, "", "")).encode() + body)
            response = http.client.HTTPResponse(connection, method=method)
            response.begin()
            headers = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, headers, response.read())

    def _connect(self) -> socket.socket:
        ready = self.host.ready
        port = urlsplit(ready.ingress_tls if self.endpoint else ready.ingress).port
        connection = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
        if self.endpoint is None:
            return connection
        context = ssl.create_default_context(cafile=ready.ca)
        return context.wrap_socket(connection, server_hostname=self.hostname)

    def expose(self) -> "Site":
        """The same site at the address of an endpoint."""
        spec = {"worker": ref(self.worker)}
        endpoint = self.host.api().create(WORKER_ENDPOINT, SPACE, f"{self.name}-endpoint", spec)
        return replace(self, endpoint=endpoint)


def upload_assets(assets: Mapping[str, Asset], management: Management) -> dict[str, str]:
    """Have the host hold every file and the manifest; returns the artifact of a StaticAssetBundle (SA-01, SA-02)."""
    files = []
    for path, asset in assets.items():
        digest = management.put_artifact(asset.content)
        files.append({"path": path, "url": HELD + digest, "sha256": digest, "mediaType": asset.media_type})
    digest = management.put_artifact(json.dumps({"files": files}).encode())
    return {"url": HELD + digest, "sha256": digest}


def ref(resource: Resource) -> dict[str, str]:
    return {"resourceUid": resource.uid}


def make_site(
    host: TestHost,
    name: str,
    assets: Mapping[str, Asset],
    source: str | None = None,
    *,
    runs_worker_first: bool = False,
    is_single_page: bool = False,
    bindings: Mapping[str, Resource] | None = None,
) -> Site:
    """A Worker served by one Version: these assets, and `source` as its only module with a `fetch` handler."""
    api = host.api()
    site = Site(host, name, api.create(MODULE_WORKER, SPACE, name, {}))
    artifact = upload_assets(assets, host.management)
    bundle = api.create(STATIC_ASSET_BUNDLE, SPACE, f"{name}-assets", {"artifact": artifact})
    handling = "single_page_application" if is_single_page else "none"
    served = {"bundle": ref(bundle), "runWorkerFirst": runs_worker_first, "notFoundHandling": handling}
    spec: dict[str, Any] = {"worker": ref(site.worker), "handlers": [], "assets": served}
    site.made += [site.worker, bundle]
    if source is not None:
        module = FixtureVersion("v1", "main.js", 10000, (ModuleSource("main.js", JS, source.encode()),))
        code = api.create(WORKER_BUNDLE, SPACE, f"{name}-code", {"artifact": upload_bundle(module, host.management)})
        services = [{"name": bound, "resource": ref(target)} for bound, target in (bindings or {}).items()]
        spec |= {"bundle": ref(code), "handlers": ["fetch"], "serviceBindings": services}
        site.made.append(code)
    version = api.create(WORKER_VERSION, SPACE, f"{name}-v1", spec)
    weights = {"worker": ref(site.worker), "versions": [{"workerVersion": ref(version), "weight": 10000}]}
    site.made += [version, api.create(WORKER_DEPLOYMENT, SPACE, f"{name}-live", weights)]
    return site
