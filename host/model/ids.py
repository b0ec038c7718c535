"""Identifiers of the Host API: their grammar, and where fresh ones come from."""

import base64
import re
import secrets
from typing import Protocol

IDENTIFIER_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"
IDEMPOTENCY_KEY_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._:-]{15,127}"
IDENTIFIER_RULE = "1 to 128 of A-Z a-z 0-9 . _ - beginning with a letter or digit"
IDEMPOTENCY_KEY_RULE = "16 to 128 of A-Z a-z 0-9 . _ : - beginning with a letter or digit"
"""The patterns in words, for refusals."""

_IDENTIFIER = re.compile(IDENTIFIER_PATTERN)
_IDEMPOTENCY_KEY = re.compile(IDEMPOTENCY_KEY_PATTERN)


def is_identifier(text: str) -> bool:
    """Whether `text` may be an id, uid, Space or name (HA-04)."""
    return _IDENTIFIER.fullmatch(text) is not None


def is_idempotency_key(text: str) -> bool:
    """Whether `text` may be an idempotency key (HA-50)."""
    return _IDEMPOTENCY_KEY.fullmatch(text) is not None


class Ids(Protocol):
    """A source of identifiers that are never given twice."""

    def fresh(self, kind: str) -> str:
        """A new identifier; `kind` is a short word that shows in it."""


class RandomIds:
    """Identifiers of 128 random bits."""

    def fresh(self, kind: str) -> str:
        return f"{kind}-{base64.b32encode(secrets.token_bytes(16)).decode().rstrip('=').lower()}"
