"""Where a walk through a list goes on: opaque, and bound by a MAC to filters, Space and principal (HA-34)."""

import base64
import binascii
import hashlib
import hmac
import json

from host.model.errors import CallerError, ErrorCode, invalid_request
from host.model.records import ResourceFilter

_MAC_BYTES = 16
_TIME_BYTES = 8


class Cursors:
    """Makes and reads cursors under one secret of the host; each is good for `window_s` seconds."""

    def __init__(self, secret: bytes, window_s: int) -> None:
        self._secret = secret
        self._window_ms = window_s * 1000

    def write(self, owner: str, where: ResourceFilter, last_uid: str, at_ms: int) -> str:
        text = at_ms.to_bytes(_TIME_BYTES, "big") + last_uid.encode("ascii")
        return base64.urlsafe_b64encode(self._mac(owner, where, text) + text).rstrip(b"=").decode("ascii")

    def read(self, owner: str, where: ResourceFilter, cursor: str, at_ms: int) -> str:
        """The last uid of the page before.

        Raises `invalid_request` for one altered or made for another walk, `cursor_expired` for an old one.
        """
        try:
            data = base64.urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
        except (UnicodeEncodeError, binascii.Error, ValueError):
            raise invalid_request("the cursor is not one of this host") from None
        text = data[_MAC_BYTES:]
        if not hmac.compare_digest(data[:_MAC_BYTES], self._mac(owner, where, text)):
            raise invalid_request("the cursor is not one of this host for this list")
        made_ms, last_uid = int.from_bytes(text[:_TIME_BYTES], "big"), text[_TIME_BYTES:].decode("ascii")
        if not hmac.compare_digest(self.write(owner, where, last_uid, made_ms), cursor):
            raise invalid_request("the cursor was altered")
        if at_ms - made_ms > self._window_ms:
            raise CallerError(ErrorCode.CURSOR_EXPIRED, "the cursor is too old: begin the walk again")
        return last_uid

    def _mac(self, owner: str, where: ResourceFilter, text: bytes) -> bytes:
        bound = json.dumps([owner, where.space, where.name, where.form_url, text.decode("latin-1")])
        return hmac.digest(self._secret, bound.encode("ascii"), hashlib.sha256)[:_MAC_BYTES]
