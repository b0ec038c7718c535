"""What the Forms of held files have in common: fetch, verify and hold a manifest and all it names, whatever it is for.

Knows neither modules nor assets: a Form says how its manifest is read (WB-01 to WB-11, SA-01 to SA-11).
"""

from abc import abstractmethod
from dataclasses import dataclass

from host.forms.bundle_manifest import (
    LARGEST_BUNDLE_BYTES,
    LARGEST_FILE_BYTES,
    LARGEST_MANIFEST_BYTES,
    Manifest,
    ManifestInvalid,
    is_artifact_url,
)
from host.forms.form import ApplyFailed, Form, Outcome, Reference, Task
from host.forms.spec import closed_object, shown, string
from host.model.digest import is_sha256_hex
from host.model.errors import FailureCode, invalid_spec
from host.model.faults import register
from host.model.json import JsonObject, JsonValue
from host.model.operation_states import Effect
from host.ports import ArtifactPort, ArtifactRefused, ArtifactSource, Backend, HeldFile

AFTER_MANIFEST = register("host.bundle.after_manifest", "the manifest is held, no file of it yet")
AFTER_FILE = register("host.bundle.after_file", "a file of the bundle is held, later ones may not be")


@dataclass(frozen=True, slots=True)
class HeldBundleSpec:
    source: ArtifactSource


class HeldBundle(Form[HeldBundleSpec]):
    """A Form whose whole spec is the source of a manifest."""

    @abstractmethod
    def read_manifest(self, data: bytes) -> Manifest:
        """Raises `ManifestInvalid`."""

    def parse(self, spec: JsonValue) -> HeldBundleSpec:
        members = closed_object(spec, "spec", required=("artifact",))
        artifact = closed_object(members["artifact"], "spec.artifact", required=("url", "sha256"))
        source = ArtifactSource(
            url=string(artifact["url"], "spec.artifact.url"),
            sha256=string(artifact["sha256"], "spec.artifact.sha256"),
        )
        if not is_artifact_url(source.url):
            raise invalid_spec("spec.artifact.url is not a plain https URL")
        if not is_sha256_hex(source.sha256):
            raise invalid_spec("spec.artifact.sha256 is not 64 lower-case hex digits")
        return HeldBundleSpec(source)

    def references(self, spec: HeldBundleSpec) -> tuple[Reference, ...]:
        return ()

    async def apply(self, task: Task[HeldBundleSpec], backend: Backend) -> Outcome:
        if task.facts:
            return await self._verify_again(task, backend.artifacts)
        try:
            observed = await self._hold_all(task, backend.artifacts)
        except (ArtifactRefused, ManifestInvalid) as error:
            await backend.artifacts.release(task.uid)
            is_refusal = isinstance(error, ArtifactRefused)
            code = FailureCode.ARTIFACT_REFUSED if is_refusal else FailureCode.MANIFEST_INVALID
            raise ApplyFailed(code, str(error), Effect.NONE) from error
        return Outcome(observed=observed, facts=observed)

    async def retire(self, task: Task[HeldBundleSpec], backend: Backend) -> None:
        await backend.artifacts.release(task.uid)

    async def _hold_all(self, task: Task[HeldBundleSpec], artifacts: ArtifactPort) -> JsonObject:
        """Every byte held and checked, and only then a description of them (WB-05, SA-05)."""
        held = await artifacts.hold(task.owner, task.uid, task.spec.source, LARGEST_MANIFEST_BYTES)
        task.reach(AFTER_MANIFEST)
        manifest = self.read_manifest(await artifacts.read(held.sha256))
        sizes: list[int] = []
        for file in manifest.files:
            room = LARGEST_BUNDLE_BYTES - sum(sizes)
            source = file.source
            try:
                kept = await artifacts.hold(task.owner, task.uid, source, min(LARGEST_FILE_BYTES, room))
            except ArtifactRefused as error:
                raise ArtifactRefused(f"{shown(file.path)}: {error}") from error
            sizes.append(kept.size_bytes)
            task.reach(AFTER_FILE)
        return _description(held.sha256, manifest, sizes)

    async def _verify_again(self, task: Task[HeldBundleSpec], artifacts: ArtifactPort) -> Outcome:
        """An equal update checks that the held bytes are there; it never fetches (WB-10, SA-10)."""
        try:
            manifest = self.read_manifest(await artifacts.read(task.spec.source.sha256))
            for file in manifest.files:
                await artifacts.read(file.source.sha256)
        except ArtifactRefused as error:
            raise ApplyFailed(FailureCode.ARTIFACT_REFUSED, str(error), Effect.NONE) from error
        return Outcome(observed=task.facts, facts=task.facts)


def _description(digest: str, manifest: Manifest, sizes: list[int]) -> JsonObject:
    entrypoint: JsonObject = {} if manifest.entrypoint is None else {"entrypoint": manifest.entrypoint}
    return {
        "manifestSha256": digest,
        "fileCount": len(manifest.files),
        "totalBytes": sum(sizes),
        **entrypoint,
        "files": [
            {"path": file.path, "sha256": file.source.sha256, "mediaType": file.media_type, "byteSize": size}
            for file, size in zip(manifest.files, sizes, strict=True)
        ],
    }


def held_files(facts: JsonObject) -> tuple[HeldFile, ...] | None:
    """The files of a verified bundle, in the manifest's order; `None` before its verification."""
    files = facts.get("files")
    if not isinstance(files, list):
        return None
    entries = [each for each in files if isinstance(each, dict)]
    return tuple(HeldFile(str(each["path"]), str(each["sha256"]), str(each["mediaType"])) for each in entries)
