"""A Version's secrets between values and sealed bytes. Knows no table; no value of a secret leaves by a message."""

import json
from collections.abc import Mapping

from host.model.private_keys import PrivateKeys, SealBroken


class VersionSecrets:
    """Seals under the host key, bound to the uid of the Version (HA-61)."""

    def __init__(self, keys: PrivateKeys) -> None:
        self._keys = keys

    def seal(self, version_uid: str, secrets: Mapping[str, str]) -> bytes | None:
        """`None` for a Version without secrets."""
        if not secrets:
            return None
        text = json.dumps(dict(secrets), ensure_ascii=True, separators=(",", ":"))
        return self._keys.seal(text, f"version {version_uid}")

    def unseal(self, version_uid: str, sealed: bytes) -> Mapping[str, str] | None:
        """`None` when they are lost, because the host key is another one."""
        try:
            secrets: dict[str, str] = json.loads(self._keys.unseal(sealed, f"version {version_uid}"))
        except SealBroken:
            return None
        return secrets
