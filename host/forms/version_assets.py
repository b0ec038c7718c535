"""The assets of a WorkerVersion: what is checked before it is stored, and the proof that every byte is held (WV-13)."""

from collections.abc import Iterator

from host.forms.form import ApplyFailed, StateView, Task
from host.forms.held_bundle import held_files
from host.forms.version_spec import SINGLE_PAGE, Assets, WorkerVersionSpec
from host.model.errors import CallerError, ErrorCode, FailureCode, dependency_conflict
from host.model.json import JsonObject
from host.model.operation_states import Effect
from host.ports import ArtifactPort, ArtifactRefused, AssetsRecord

INDEX = "index.html"
"""What the root, a trailing `/` and the fallback of a single page stand for (WV-10, WV-14)."""


def check_assets(view: StateView, assets: Assets | None) -> None:
    """A single page needs its page, so its bundle has to be verified before the Version is stored (WV-13)."""
    if assets is None or assets.not_found_handling != SINGLE_PAGE:
        return
    bundle = view.resource(assets.bundle_uid)
    files = None if bundle is None else held_files(bundle.facts)
    if files is None and bundle is not None and bundle.unfinished is not None:
        raise CallerError(ErrorCode.RESOURCE_BUSY, "spec.assets.bundle is not verified yet")
    if files is None or not any(file.path == INDEX for file in files):
        raise dependency_conflict(f"spec.assets: single_page_application needs a bundle with {INDEX} at its root")


async def check_bytes(task: Task[WorkerVersionSpec], artifacts: ArtifactPort) -> None:
    """Every byte of the Version's bundles is there and is what its digest says, compiled or not (WV-08, WB-11).

    Raises `ApplyFailed`.
    """
    held = [task.related.get(uid) for uid in (task.spec.bundle_uid, _assets_uid(task)) if uid is not None]
    digests = [digest for bundle in held if bundle is not None for digest in _digests(bundle.facts)]
    try:
        for digest in dict.fromkeys(digests):
            await artifacts.read(digest)
    except ArtifactRefused as error:
        raise ApplyFailed(FailureCode.ARTIFACT_REFUSED, str(error), Effect.NONE) from error


def find_assets(task: Task[WorkerVersionSpec]) -> AssetsRecord | None:
    """What the Version serves besides its code. Raises `ApplyFailed` while its assets are not verified."""
    assets = task.spec.assets
    if assets is None:
        return None
    bundle = task.related.get(assets.bundle_uid)
    if bundle is None or held_files(bundle.facts) is None:
        raise ApplyFailed(FailureCode.DEPENDENCY_UNFIT, "the assets could not be verified", Effect.NONE)
    manifest = str(bundle.facts["manifestSha256"])
    return AssetsRecord(manifest, assets.runs_worker_first, assets.not_found_handling == SINGLE_PAGE)


def _assets_uid(task: Task[WorkerVersionSpec]) -> str | None:
    return None if task.spec.assets is None else task.spec.assets.bundle_uid


def _digests(facts: JsonObject) -> Iterator[str]:
    """Of manifest and files of a verified bundle; none of another."""
    files = held_files(facts)
    if files is not None:
        yield str(facts["manifestSha256"])
        yield from (file.sha256 for file in files)
