"""The words by which the host knows whose a printed line is. Knows no line and no process.

workerd formats what isolates print with JavaScript that runs beside app code, so an app can learn the tag of its own
lines. Therefore each tag speaks for one Worker, Version, instance and context alone.
"""

import hashlib
import json
import secrets

TAG_LENGTH = 32
"""Characters of a tag, lower-case hex."""


class LogTags:
    """Tags that nobody can make without the key, which no isolate and no kernel has."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def of(
        self,
        worker_uid: str | None,
        version_uid: str | None,
        instance_id: str | None = None,
        context_id: str | None = None,
    ) -> str:
        """The tag of the lines that say they come from there."""
        place = json.dumps([worker_uid, version_uid, instance_id, context_id]).encode()
        return hashlib.blake2b(place, key=self._key, digest_size=TAG_LENGTH // 2).hexdigest()
