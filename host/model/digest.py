"""SHA-256 in the one spelling that the contract has: 64 lower-case hex digits."""

import hashlib
import re

_SHA256 = re.compile(r"[0-9a-f]{64}")


def sha256_hex(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def is_sha256_hex(text: str) -> bool:
    return _SHA256.fullmatch(text) is not None
