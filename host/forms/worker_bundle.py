"""WorkerBundle 0.2.0: verified, immutable module bytes in the host's custody (WB-01 to WB-11)."""

from host.forms import urls
from host.forms.bundle_manifest import Manifest, read_module_manifest
from host.forms.held_bundle import HeldBundle, held_files
from host.model.json import JsonObject
from host.ports import HeldFile, ModuleGraph


class WorkerBundle(HeldBundle):
    url = urls.WORKER_BUNDLE

    def read_manifest(self, data: bytes) -> Manifest:
        return read_module_manifest(data)


def graph_in(digest: str, manifest: bytes) -> ModuleGraph:
    """The module graph of the held bytes of a manifest. Raises `ManifestInvalid`."""
    found = read_module_manifest(manifest)
    assert found.entrypoint is not None, "a manifest of modules names one"
    files = tuple(HeldFile(file.path, file.source.sha256, file.media_type) for file in found.files)
    return ModuleGraph(digest, found.entrypoint, files)


def graph_of(facts: JsonObject) -> ModuleGraph | None:
    """The module graph of a verified bundle; `None` before its verification."""
    files = held_files(facts)
    if files is None:
        return None
    return ModuleGraph(str(facts["manifestSha256"]), str(facts["entrypoint"]), files)
