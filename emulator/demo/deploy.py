"""Deploys a fixture through the Host API: held artifacts, Worker, Workflow, Bundles, Versions, Deployment."""

import json
from dataclasses import dataclass

from emulator.client import (
    DURABLE_WORKFLOW,
    MODULE_WORKER,
    WORKER_BUNDLE,
    WORKER_DEPLOYMENT,
    WORKER_VERSION,
    HostApi,
    Management,
    Resource,
)
from emulator.demo.fixture import Fixture, FixtureVersion

SPACE = "demo"
_HELD = "https://held.takohost.invalid/sha256/"


@dataclass(frozen=True, slots=True)
class Deployed:
    """What runs: `version_names` maps a Version's uid to its name in the fixture."""

    workflow_uid: str
    version_names: dict[str, str]


def deploy(fixture: Fixture, counter_url: str, api: HostApi, management: Management) -> Deployed:
    """Create everything, in order of reference. Raises `ClientError`."""
    worker = api.create(MODULE_WORKER, SPACE, fixture.worker, {})
    workflow = api.create(
        DURABLE_WORKFLOW, SPACE, fixture.workflow, {"worker": _to(worker), "className": fixture.class_name}
    )
    versions: list[tuple[FixtureVersion, Resource]] = []
    for version in fixture.versions:
        name = f"{fixture.worker}-{version.name}"
        artifact = upload_bundle(version, management)
        bundle = api.create(WORKER_BUNDLE, SPACE, f"{name}-bundle", {"artifact": artifact})
        spec = {
            "worker": _to(worker),
            "bundle": _to(bundle),
            "handlers": ["fetch"],
            "vars": {**fixture.vars, fixture.counter_var: counter_url},
            "workflowBindings": [{"name": fixture.binding, "resource": _to(workflow)}],
        }
        versions.append((version, api.create(WORKER_VERSION, SPACE, name, spec)))
    weights = [{"workerVersion": _to(resource), "weight": version.weight} for version, resource in versions]
    api.create(WORKER_DEPLOYMENT, SPACE, f"{fixture.worker}-live", {"worker": _to(worker), "versions": weights})
    return Deployed(workflow.uid, {resource.uid: version.name for version, resource in versions})


def upload_bundle(version: FixtureVersion, management: Management) -> dict[str, str]:
    """Have the host hold every module and the manifest; returns the artifact of a WorkerBundle (WB-01, WB-02)."""
    files = []
    for module in version.modules:
        held = _held(management.put_artifact(module.content))
        files.append({"path": module.path, **held, "mediaType": module.media_type})
    manifest = {"entrypoint": version.entrypoint, "files": files}
    return _held(management.put_artifact(json.dumps(manifest).encode()))


def _held(digest: str) -> dict[str, str]:
    return {"url": _HELD + digest, "sha256": digest}


def _to(resource: Resource) -> dict[str, str]:
    return {"resourceUid": resource.uid}
