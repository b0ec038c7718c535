"""The host key at work: seals texts, and makes comparison material that is kept apart from them (HA-61, HA-64).

Knows no file and no row: whoever starts a host brings the key, which lies in no database.
"""

import hashlib
import hmac
import os
from enum import StrEnum

KEY_BYTES = 32
_ID_BYTES = 8
_NONCE_BYTES = 12


class SealBroken(Exception):
    """Sealed under another key, for another purpose, or altered: the text cannot be had."""


class Comparison(StrEnum):
    """What comparison material says of a text; `UNKNOWN` when it was made under another key (HA-65)."""

    EQUAL = "equal"
    DIFFERENT = "different"
    UNKNOWN = "unknown"


class PrivateKeys:
    """Keys derived from `material` (32 secret bytes), one per purpose. `context` binds to one row and use."""

    def __init__(self, material: bytes) -> None:
        if len(material) != KEY_BYTES:
            raise ValueError(f"a host key has {KEY_BYTES} bytes")
        self._id = _derived(material, b"id")[:_ID_BYTES]
        self._seal_key = _derived(material, b"seal")
        self._code_key = _derived(material, b"compare")

    def seal(self, text: str, context: str) -> bytes:
        """AES-256-GCM under a random nonce, authenticated together with `context`."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = os.urandom(_NONCE_BYTES)
        sealed = AESGCM(self._seal_key).encrypt(nonce, text.encode("utf-8"), context.encode("utf-8"))
        return self._id + nonce + sealed

    def unseal(self, sealed: bytes, context: str) -> str:
        """The text. Raises `SealBroken`."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        start = _ID_BYTES + _NONCE_BYTES
        try:
            opened = AESGCM(self._seal_key).decrypt(sealed[_ID_BYTES:start], sealed[start:], context.encode("utf-8"))
        except (InvalidTag, ValueError):
            raise SealBroken("a sealed value cannot be opened with this host's key") from None
        return opened.decode("utf-8")

    def comparison_code(self, text: str, context: str) -> bytes:
        """Keyed material that tells equal texts from different ones and nothing else."""
        return self._id + hmac.digest(self._code_key, _framed(context, text), hashlib.sha256)

    def compare(self, code: bytes | None, text: str, context: str) -> Comparison:
        """Whether `code` was made of `text`; `None` stands for lost material."""
        if code is None or code[:_ID_BYTES] != self._id:
            return Comparison.UNKNOWN
        is_equal = hmac.compare_digest(code, self.comparison_code(text, context))
        return Comparison.EQUAL if is_equal else Comparison.DIFFERENT

    def can_compare(self, code: bytes | None) -> bool:
        """Whether the material is there and of this key (HA-63)."""
        return code is not None and code[:_ID_BYTES] == self._id


def _derived(material: bytes, purpose: bytes) -> bytes:
    return hmac.digest(material, b"takohost host key: " + purpose, hashlib.sha256)


def _framed(context: str, text: str) -> bytes:
    start = context.encode("utf-8")
    return len(start).to_bytes(4, "big") + start + text.encode("utf-8")
