"""The manifest of a WorkerBundle: strict reading of its bytes (WB-02 to WB-04). Fetches nothing."""

import re
from dataclasses import dataclass

from host.model.digest import is_sha256_hex
from host.model.json import JsonObject, JsonRefused, JsonValue, decode_object
from host.model.urls import is_https_url
from host.ports import ArtifactSource

LARGEST_MANIFEST_BYTES = 1024 * 1024
LARGEST_FILE_BYTES = 16 * 1024 * 1024
LARGEST_BUNDLE_BYTES = 128 * 1024 * 1024
LONGEST_URL = 8192
JAVASCRIPT = "application/javascript+module"

_MOST_FILES = 512
_LONGEST_PATH_BYTES = 1024
_MEDIA_TYPES = (JAVASCRIPT, "text/plain", "application/octet-stream", "application/wasm")
_FORBIDDEN_IN_PATH = re.compile(r"[\\?#\x00-\x1f\x7f]")


class ManifestInvalid(Exception):
    """`str()` says what is wrong, without a URL (WB-11)."""


@dataclass(frozen=True, slots=True)
class ManifestFile:
    path: str
    source: ArtifactSource
    media_type: str


@dataclass(frozen=True, slots=True)
class Manifest:
    entrypoint: str
    files: tuple[ManifestFile, ...]


def is_artifact_url(text: str) -> bool:
    return len(text) <= LONGEST_URL and is_https_url(text)


def read_manifest(data: bytes) -> Manifest:
    """Raises `ManifestInvalid`."""
    try:
        members = _closed(decode_object(data), "the manifest", ("entrypoint", "files"))
    except JsonRefused as error:
        raise ManifestInvalid(f"the manifest cannot be read: {error}") from None
    entries = members["files"]
    if not isinstance(entries, list) or not 1 <= len(entries) <= _MOST_FILES:
        raise ManifestInvalid(f"files is not an array of 1 to {_MOST_FILES} entries")
    files = tuple(_read_file(entry, f"files[{index}]") for index, entry in enumerate(entries))
    if len({file.path for file in files}) != len(files):
        raise ManifestInvalid("two files have the same path")
    return Manifest(_entrypoint(members["entrypoint"], files), files)


def _closed(value: JsonValue, what: str, names: tuple[str, ...]) -> JsonObject:
    if not isinstance(value, dict) or set(value) != set(names):
        raise ManifestInvalid(f"{what} is not an object of exactly {', '.join(names)}")
    return value


def _string(value: JsonValue, what: str) -> str:
    if not isinstance(value, str):
        raise ManifestInvalid(f"{what} is not a string")
    return value


def _read_file(value: JsonValue, what: str) -> ManifestFile:
    members = _closed(value, what, ("path", "url", "sha256", "mediaType"))
    path, url, digest, media_type = (
        _string(members[name], f"{what}.{name}") for name in ("path", "url", "sha256", "mediaType")
    )
    if not _is_module_path(path):
        raise ManifestInvalid(f"{what}.path is not a relative POSIX path")
    if not is_artifact_url(url):
        raise ManifestInvalid(f"{what}.url is not a plain https URL")
    if not is_sha256_hex(digest):
        raise ManifestInvalid(f"{what}.sha256 is not 64 lower-case hex digits")
    if media_type not in _MEDIA_TYPES:
        raise ManifestInvalid(f"{what}.mediaType is none of {', '.join(_MEDIA_TYPES)}")
    return ManifestFile(path, ArtifactSource(url, digest), media_type)


def _is_module_path(path: str) -> bool:
    if not 1 <= len(path.encode("utf-8")) <= _LONGEST_PATH_BYTES or _FORBIDDEN_IN_PATH.search(path):
        return False
    return all(segment not in ("", ".", "..") for segment in path.split("/"))


def _entrypoint(value: JsonValue, files: tuple[ManifestFile, ...]) -> str:
    entrypoint = _string(value, "entrypoint")
    if not any(file.path == entrypoint and file.media_type == JAVASCRIPT for file in files):
        raise ManifestInvalid(f"entrypoint is not the path of a file of type {JAVASCRIPT}")
    return entrypoint
