"""Where a walk through a list goes on: opaque, and bound by a MAC to filters, Space and principal (HA-34)."""

import base64
import binascii
import hashlib
import hmac
import json

from host.model.errors import invalid_request
from host.model.records import ResourceFilter

_MAC_BYTES = 16


class Cursors:
    """Makes and reads cursors under one secret of the host."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def write(self, owner: str, where: ResourceFilter, last_uid: str) -> str:
        uid = last_uid.encode("ascii")
        return base64.urlsafe_b64encode(self._mac(owner, where, uid) + uid).rstrip(b"=").decode("ascii")

    def read(self, owner: str, where: ResourceFilter, cursor: str) -> str:
        """The last uid of the page before. Raises `invalid_request` for one altered or made for another walk."""
        try:
            data = base64.urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
        except (UnicodeEncodeError, binascii.Error, ValueError):
            raise invalid_request("the cursor is not one of this host") from None
        uid = data[_MAC_BYTES:]
        if not hmac.compare_digest(data[:_MAC_BYTES], self._mac(owner, where, uid)):
            raise invalid_request("the cursor is not one of this host for this list")
        last_uid = uid.decode("ascii")
        if not hmac.compare_digest(self.write(owner, where, last_uid), cursor):
            raise invalid_request("the cursor was altered")
        return last_uid

    def _mac(self, owner: str, where: ResourceFilter, uid: bytes) -> bytes:
        bound = json.dumps([owner, where.space, where.name, where.form_url, uid.decode("latin-1")])
        return hmac.digest(self._secret, bound.encode("ascii"), hashlib.sha256)[:_MAC_BYTES]
