"""Manifests of held files: strict reading of their bytes (WB-02 to WB-04, SA-02 to SA-04). Fetches nothing."""

import re
from collections.abc import Callable
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
_MODULE_TYPES = (JAVASCRIPT, "text/plain", "application/octet-stream", "application/wasm")
_WORD = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_ANY_TYPE = re.compile(f"{_WORD}/{_WORD}")
_FORBIDDEN_IN_PATH = re.compile(r"[\\?#\x00-\x1f\x7f]")


class ManifestInvalid(Exception):
    """`str()` says what is wrong, without a URL (WB-11, SA-11)."""


@dataclass(frozen=True, slots=True)
class ManifestFile:
    path: str
    source: ArtifactSource
    media_type: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """`entrypoint` is the path of the main module; assets have none."""

    files: tuple[ManifestFile, ...]
    entrypoint: str | None = None


def is_artifact_url(text: str) -> bool:
    return len(text) <= LONGEST_URL and is_https_url(text)


def read_module_manifest(data: bytes) -> Manifest:
    """The manifest of a WorkerBundle. Raises `ManifestInvalid`."""
    members = _members(data, ("entrypoint", "files"))
    files = _files(members["files"], _check_module_type)
    return Manifest(files, _entrypoint(members["entrypoint"], files))


def read_asset_manifest(data: bytes) -> Manifest:
    """The manifest of a StaticAssetBundle. Raises `ManifestInvalid`."""
    return Manifest(_files(_members(data, ("files",))["files"], _check_any_type))


def _members(data: bytes, names: tuple[str, ...]) -> JsonObject:
    try:
        return _closed(decode_object(data), "the manifest", names)
    except JsonRefused as error:
        raise ManifestInvalid(f"the manifest cannot be read: {error}") from None


def _closed(value: JsonValue, what: str, names: tuple[str, ...]) -> JsonObject:
    if not isinstance(value, dict) or set(value) != set(names):
        raise ManifestInvalid(f"{what} is not an object of exactly {', '.join(names)}")
    return value


def _string(value: JsonValue, what: str) -> str:
    if not isinstance(value, str):
        raise ManifestInvalid(f"{what} is not a string")
    return value


def _files(entries: JsonValue, check_type: Callable[[str, str], None]) -> tuple[ManifestFile, ...]:
    """`check_type` gets a media type and the name of its member."""
    if not isinstance(entries, list) or not 1 <= len(entries) <= _MOST_FILES:
        raise ManifestInvalid(f"files is not an array of 1 to {_MOST_FILES} entries")
    files = tuple(_read_file(entry, f"files[{index}]", check_type) for index, entry in enumerate(entries))
    if len({file.path for file in files}) != len(files):
        raise ManifestInvalid("two files have the same path")
    return files


def _read_file(value: JsonValue, what: str, check_type: Callable[[str, str], None]) -> ManifestFile:
    members = _closed(value, what, ("path", "url", "sha256", "mediaType"))
    path, url, digest, media_type = (
        _string(members[name], f"{what}.{name}") for name in ("path", "url", "sha256", "mediaType")
    )
    if not _is_relative_path(path):
        raise ManifestInvalid(f"{what}.path is not a relative POSIX path")
    if not is_artifact_url(url):
        raise ManifestInvalid(f"{what}.url is not a plain https URL")
    if not is_sha256_hex(digest):
        raise ManifestInvalid(f"{what}.sha256 is not 64 lower-case hex digits")
    check_type(media_type, f"{what}.mediaType")
    return ManifestFile(path, ArtifactSource(url, digest), media_type)


def _check_module_type(media_type: str, what: str) -> None:
    if media_type not in _MODULE_TYPES:
        raise ManifestInvalid(f"{what} is none of {', '.join(_MODULE_TYPES)}")


def _check_any_type(media_type: str, what: str) -> None:
    """RFC 9110: `type/subtype`, two tokens; no parameter, no white space."""
    if _ANY_TYPE.fullmatch(media_type) is None:
        raise ManifestInvalid(f"{what} is not a media type without parameters")


def _is_relative_path(path: str) -> bool:
    if not 1 <= len(path.encode("utf-8")) <= _LONGEST_PATH_BYTES or _FORBIDDEN_IN_PATH.search(path):
        return False
    return all(segment not in ("", ".", "..") for segment in path.split("/"))


def _entrypoint(value: JsonValue, files: tuple[ManifestFile, ...]) -> str:
    entrypoint = _string(value, "entrypoint")
    if not any(file.path == entrypoint and file.media_type == JAVASCRIPT for file in files):
        raise ManifestInvalid(f"entrypoint is not the path of a file of type {JAVASCRIPT}")
    return entrypoint
