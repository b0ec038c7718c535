"""The routing table of the gateway as values, and the JSON in which its kernel takes it. Sends nothing."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from emulator.runtime.addresses import worker_hostname
from emulator.runtime.log_tags import LogTags
from host.model.json import JsonObject
from host.ports import AssetsRecord, VersionRecord


@dataclass(frozen=True, slots=True)
class RoutedVersion:
    """A Version with its share of the new requests of its Worker."""

    version: VersionRecord
    weight: int


@dataclass(frozen=True, slots=True)
class GatewayRoute:
    """A Worker that has a name on this host; without Versions it has no active Deployment and answers 503.

    `endpoints` are hostnames beyond its own. `activation` is another one each time that a Deployment was put in force,
    with whatever weights.
    """

    worker_uid: str
    name: str
    versions: tuple[RoutedVersion, ...] = ()
    endpoints: tuple[str, ...] = ()
    activation: str = ""

    @property
    def hostname(self) -> str:
        return worker_hostname(self.name, self.worker_uid)

    @property
    def deployment(self) -> tuple[str, Mapping[str, int]]:
        """What a new Deployment changes: its activation, and the weights by Version uid."""
        return self.activation, {routed.version.version_uid: routed.weight for routed in self.versions}

    def to_json(self, tags: LogTags, wards: Mapping[str, int]) -> JsonObject:
        return {
            "workerUid": self.worker_uid,
            "name": self.name,
            "hostnames": [self.hostname, *self.endpoints],
            "versions": [_version_json(routed, tags, wards) for routed in self.versions],
        }


@dataclass(frozen=True, slots=True)
class FoundRoute:
    """Where the serving gateway leads a hostname to; `is_served` when there are Versions to choose from."""

    worker_uid: str
    is_served: bool


@dataclass(frozen=True, slots=True)
class RouteTable:
    """Every Worker of the host. `default_worker` (a name) or the only Worker answers at `localhost` and addresses."""

    routes: tuple[GatewayRoute, ...] = ()
    default_worker: str | None = None

    @property
    def fallback(self) -> GatewayRoute | None:
        named = [route for route in self.routes if self.default_worker in (None, route.name)]
        return named[0] if len(named) == 1 else None

    def redeployed_in(self, later: "RouteTable") -> set[str]:
        """The Versions of every Worker that a Deployment was put in force for until the later table, or that has none
        any more (WD-04); a table that is made for another reason changes nothing here."""
        then = {route.worker_uid: route.deployment for route in later.routes}
        anew = [route.deployment for route in self.routes if then.get(route.worker_uid) != route.deployment]
        return {uid for _, shares in anew for uid in shares}

    def to_json(self, tags: LogTags, wards: Mapping[str, int] | None = None) -> str:
        """The table as the kernel takes it; `tags` are for the lines that its Versions print, `wards` the numbers of
        the processes that serve single Versions, by uid."""
        fallback = self.fallback
        table: JsonObject = {
            "fallback": None if fallback is None else fallback.hostname,
            "workers": [route.to_json(tags, wards or {}) for route in self.routes],
        }
        return json.dumps(table, ensure_ascii=False, separators=(",", ":"))


def _version_json(routed: RoutedVersion, tags: LogTags, wards: Mapping[str, int]) -> JsonObject:
    version = routed.version
    return {
        "weight": routed.weight,
        "ward": wards.get(version.version_uid),
        "workerUid": version.worker_uid,
        "versionUid": version.version_uid,
        "logTag": tags.of(version.worker_uid, version.version_uid),
        "code": version.code_digest,
        "handlers": list(version.handlers),
        "vars": dict(version.vars),
        "withheld": version.is_withheld,
        "secrets": None if version.secrets is None else dict(version.secrets),
        "bindings": [{"name": b.name, "kind": b.kind, "targetUid": b.target_uid} for b in version.bindings],
        "assets": None if version.assets is None else _assets_json(version.assets),
    }


def _assets_json(assets: AssetsRecord) -> JsonObject:
    """A digest in place of the files: the gateway reads the manifest once it needs it."""
    return {
        "manifest": assets.manifest_sha256,
        "runWorkerFirst": assets.runs_worker_first,
        "fallsBack": assets.falls_back,
    }
