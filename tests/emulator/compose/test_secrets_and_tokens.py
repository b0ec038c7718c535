"""A whole host with tokens: a secret travels to the Worker and shows nowhere on disk; OpenAPI is served."""

import json
import secrets
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from emulator.client import (
    DURABLE_WORKFLOW,
    MODULE_WORKER,
    WORKER_BUNDLE,
    WORKER_DEPLOYMENT,
    WORKER_ENDPOINT,
    WORKER_VERSION,
    Connection,
)
from emulator.compose.token_file import add_token
from emulator.demo.processes import HostProcess
from tests.emulator.compose.hosts import JS, wait_until

pytestmark = pytest.mark.usefixtures("workerd")

ROOT = "/apis/forms.takoform.com/v2"
SECRET = "correct-horse-battery-staple"
SOURCE = b"export default { fetch(request, env) { return new Response(env.TOKEN + ' ' + env.V); } };"


class Client:
    """One principal's view of a host process."""

    def __init__(self, process: HostProcess, token: str) -> None:
        ready = process.ready
        self.api = Connection(ready.api, ca=ready.ca, token=token)
        self.management = Connection(ready.management, token=ready.management_token())
        self.ingress = Connection(ready.ingress)

    def create(self, form: str, name: str, spec: dict[str, Any], **more: Any) -> str:
        body = {"form": form, "space": "s", "name": name, "spec": spec, **more}
        headers = {"Idempotency-Key": secrets.token_hex(16), "Content-Type": "application/json"}
        answer = self.api.send("POST", f"{ROOT}/resources", content=json.dumps(body).encode(), headers=headers)
        assert answer.status_code in (200, 202), answer.text
        operation = answer.json()["id"]
        wait_until(lambda: self.operation(operation)["status"] in ("succeeded", "failed"))
        assert self.operation(operation)["status"] == "succeeded", self.operation(operation)
        return str(answer.json()["resourceUid"])

    def operation(self, identifier: str) -> Any:
        return self.api.send("GET", f"{ROOT}/operations/{identifier}").json()

    def readiness(self) -> set[bool]:
        """What Version, Deployment and Worker say of themselves."""
        items = self.api.send("GET", f"{ROOT}/resources").json()["items"]
        return {each["observed"]["ready"] for each in items if "ready" in each["observed"]}

    def routes(self) -> list[Any]:
        """What every endpoint says of itself."""
        items = self.api.send("GET", f"{ROOT}/resources?form={quote(WORKER_ENDPOINT, safe='')}").json()["items"]
        return [each["observed"] for each in items]

    def upload(self, content: bytes) -> dict[str, str]:
        from hashlib import sha256

        digest = sha256(content).hexdigest()
        path = f"/v1/artifacts/sha256/{digest}?principal=alice"
        assert self.management.send("PUT", path, content=content).status_code == 200
        return {"url": f"https://held.takohost.invalid/sha256/{digest}", "sha256": digest}

    def close(self) -> None:
        for connection in (self.api, self.management, self.ingress):
            connection.close()


def deploy(client: Client) -> None:
    module = {"path": "main.js", "mediaType": JS, **client.upload(SOURCE)}
    manifest = client.upload(json.dumps({"entrypoint": "main.js", "files": [module]}).encode())
    worker = {"resourceUid": client.create(MODULE_WORKER, "w", {})}
    bundle = {"resourceUid": client.create(WORKER_BUNDLE, "b", {"artifact": manifest})}
    spec = {"worker": worker, "bundle": bundle, "handlers": ["fetch"], "vars": {"V": "v"}}
    spec["requiredSensitiveVars"] = ["TOKEN"]
    version = client.create(WORKER_VERSION, "v", spec, privateInputs={"TOKEN": SECRET})
    weights = [{"workerVersion": {"resourceUid": version}, "weight": 10000}]
    client.create(WORKER_DEPLOYMENT, "d", {"worker": worker, "versions": weights})
    client.create(WORKER_ENDPOINT, "e", {"worker": worker})


def stored(folder: Path) -> bytes:
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return b"\n".join(path.read_bytes() for path in files)


@pytest.mark.req("HA-61", "HA-21", "HA-22", "WV-07", "MW-15")
def test_a_secret_reaches_the_worker_through_kills_and_no_file_holds_it(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.toml"
    token = add_token(tokens, "alice")
    words = ["--state-dir", str(tmp_path / "state"), "--ingress-port", "0", "--auth", f"tokens:{tokens}"]
    for life in range(2):
        process = HostProcess(words, tmp_path / "ready.json", tmp_path / "host.log")
        client = Client(process, token)
        try:
            if life == 0:
                deploy(client)
            assert client.ingress.send("GET", "/").text == f"{SECRET} v"
            assert SECRET.encode() not in stored(tmp_path)
            assert token.encode() not in stored(tmp_path)
            stranger = Connection(process.ready.api, ca=process.ready.ca)
            assert stranger.send("GET", f"{ROOT}/resources").status_code == 401
            stranger.close()
            token = add_token(tokens, "alice")
            document = client.management.send("GET", "/v1/openapi.json").json()
            assert document["components"]["securitySchemes"] == {"bearer": {"type": "http", "scheme": "bearer"}}
            assert document["servers"] == [{"url": process.ready.api}]
        finally:
            client.close()
            process.kill()
    assert (tmp_path / "state" / "host.key").stat().st_mode & 0o777 == 0o600
    assert SECRET.encode() not in stored(tmp_path)


def warnings_in(log: Path, key: Path) -> int:
    """Warnings of all starts so far."""
    return log.read_text().count(f"1 Version has lost the secrets: {key} does not open them; restore")


@pytest.mark.req("WV-12", "WD-08", "HA-65", "WE-06")
def test_a_lost_host_key_shows_on_everything_that_needed_it(tmp_path: Path) -> None:
    tokens, state = tmp_path / "tokens.toml", tmp_path / "state"
    token = add_token(tokens, "alice")
    words = ["--state-dir", str(state), "--ingress-port", "0", "--auth", f"tokens:{tokens}"]
    key = state / "host.key"
    original = b""
    for life, (is_ready, status) in enumerate([(True, 200), (False, 503), (True, 200)]):
        if life == 1:
            original = key.read_bytes()
            key.unlink()
        elif life == 2:
            key.write_bytes(original)
        process = HostProcess(words, tmp_path / "ready.json", tmp_path / "host.log")
        client = Client(process, token)
        try:
            if life == 0:
                deploy(client)
            assert client.readiness() == {is_ready}
            assert client.routes() == [{"tlsReady": True, "activeDeploymentRouteReady": is_ready}]
            answer = client.ingress.send("GET", "/")
            assert answer.status_code == status, answer.text
            assert (SECRET in answer.text) is is_ready
            assert warnings_in(tmp_path / "host.log", key) == (1 if life else 0)
        finally:
            client.close()
            process.kill()


FLOW = (
    b"export class Flow { async run(event, step) { await step.sleep('nap', 60); return {}; } };"
    b"export default { fetch() { return new Response('here'); } };"
)


class Flows:
    """Workflows by the name of their Worker, as management shows them to a client."""

    def __init__(self) -> None:
        self.uids: dict[str, str] = {}

    def make(self, client: Client, name: str, identifier: str) -> int:
        """The status of the answer."""
        body, headers = json.dumps({"id": identifier}).encode(), {"Content-Type": "application/json"}
        path = f"/v1/workflows/{self.uids[name]}/instances"
        return client.management.send("POST", path, content=body, headers=headers).status_code

    def status(self, client: Client, name: str, identifier: str) -> str:
        path = f"/v1/workflows/{self.uids[name]}/instances/{identifier}"
        return str(client.management.send("GET", path).json()["status"])


def advance(client: Client) -> None:
    body, headers = b'{"seconds": 61}', {"Content-Type": "application/json"}
    answer = client.management.send("POST", "/v1/clock/advance", content=body, headers=headers)
    assert answer.status_code == 200, answer.text


@pytest.mark.req("WD-08", "DW-02", "DW-18", "DW-35")
def test_workflows_that_lost_their_secrets_take_nothing_and_hold_up_nobody(tmp_path: Path) -> None:
    tokens, state = tmp_path / "tokens.toml", tmp_path / "state"
    token = add_token(tokens, "alice")
    words = ["--state-dir", str(state), "--ingress-port", "0", "--auth", f"tokens:{tokens}"]
    flows, sleepers = Flows(), [f"i{number}" for number in range(20)]

    def before(client: Client) -> None:
        flows.uids["secret"] = deploy_flow(client, "secret", {"TOKEN": SECRET})
        flows.uids["open"] = deploy_flow(client, "open", {})
        assert [flows.make(client, "secret", each) for each in sleepers] == [200] * 20
        wait_until(lambda: {flows.status(client, "secret", each) for each in sleepers} == {"sleeping"})

    def after(client: Client) -> None:
        advance(client)
        assert flows.make(client, "secret", "late") != 200
        assert flows.make(client, "open", "one") == 200
        wait_until(lambda: flows.status(client, "open", "one") == "sleeping")
        advance(client)
        wait_until(lambda: flows.status(client, "open", "one") == "complete")
        assert {flows.status(client, "secret", each) for each in sleepers} == {"sleeping"}

    for live in (before, after):
        process = HostProcess(words, tmp_path / "ready.json", tmp_path / "host.log")
        client = Client(process, token)
        try:
            live(client)
        finally:
            client.close()
            process.kill()
        (state / "host.key").unlink()


def deploy_flow(client: Client, name: str, inputs: dict[str, str]) -> str:
    """A Workflow of its own Worker, whose Version needs these secrets; its uid."""
    module = {"path": "main.js", "mediaType": JS, **client.upload(FLOW)}
    manifest = client.upload(json.dumps({"entrypoint": "main.js", "files": [module]}).encode())
    worker = {"resourceUid": client.create(MODULE_WORKER, name, {})}
    bundle = {"resourceUid": client.create(WORKER_BUNDLE, f"{name}-b", {"artifact": manifest})}
    spec = {"worker": worker, "bundle": bundle, "handlers": ["fetch"], "requiredSensitiveVars": sorted(inputs)}
    version = client.create(WORKER_VERSION, f"{name}-v", spec, **({"privateInputs": inputs} if inputs else {}))
    weights = [{"workerVersion": {"resourceUid": version}, "weight": 10000}]
    client.create(WORKER_DEPLOYMENT, f"{name}-d", {"worker": worker, "versions": weights})
    return client.create(DURABLE_WORKFLOW, f"{name}-f", {"worker": worker, "className": "Flow"})
