"""StaticAssetBundle 0.2.0: verified, immutable files that a Version may serve (SA-01 to SA-12).

Holds bytes and nothing more: no route, no binding and no order of look-up follows from it; serving is WorkerVersion's.
"""

from host.forms import urls
from host.forms.bundle_manifest import Manifest, read_asset_manifest
from host.forms.held_bundle import HeldBundle


class StaticAssetBundle(HeldBundle):
    url = urls.STATIC_ASSET_BUNDLE

    def read_manifest(self, data: bytes) -> Manifest:
        return read_asset_manifest(data)
