"""Held artifacts: content-addressed bytes on disk, who may use them, where they are fetched from. Knows no Form."""

from emulator.artifacts.custody import HELD_URL_PREFIX, ArtifactCustody, Sources, held_url
from emulator.artifacts.files import MAX_ARTIFACT_BYTES, ArtifactTooLarge, DigestMismatch, is_digest
from emulator.artifacts.places import AllowedOrigin, Origin, PlaceRefused, read_origin
from emulator.artifacts.rows import LOSSES, SCHEMA

__all__ = [
    "HELD_URL_PREFIX",
    "LOSSES",
    "MAX_ARTIFACT_BYTES",
    "SCHEMA",
    "AllowedOrigin",
    "ArtifactCustody",
    "ArtifactTooLarge",
    "DigestMismatch",
    "Origin",
    "PlaceRefused",
    "Sources",
    "held_url",
    "is_digest",
    "read_origin",
]
