"""Held artifacts: content-addressed bytes on disk and who may use them. Knows no Form and no HTTP."""

from emulator.artifacts.custody import HELD_URL_PREFIX, ArtifactCustody, held_url
from emulator.artifacts.files import MAX_ARTIFACT_BYTES, ArtifactTooLarge, DigestMismatch, is_digest
from emulator.artifacts.rows import SCHEMA

__all__ = [
    "HELD_URL_PREFIX",
    "MAX_ARTIFACT_BYTES",
    "SCHEMA",
    "ArtifactCustody",
    "ArtifactTooLarge",
    "DigestMismatch",
    "held_url",
    "is_digest",
]
