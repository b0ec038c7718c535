"""One HTTP origin, trusted by a CA file, optionally reached at another address. Knows no API."""

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from emulator.client.errors import ClientError, HostUnreachable, UnexpectedAnswer

_TIMEOUT_S = 40.0


class ConnectTo(httpx.BaseTransport):
    """Sends every request to one `host:port` while names, certificates and the Host header stay the URL's own."""

    def __init__(self, inner: httpx.BaseTransport, address: str) -> None:
        host, separator, port = address.rpartition(":")
        if not separator or not port.isdigit():
            raise ClientError(f"connect-to takes host:port, not {address!r}")
        self._inner = inner
        self._host = host.strip("[]")
        self._port = int(port)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Redirect the connection only."""
        request.extensions = {**request.extensions, "sni_hostname": request.url.host}
        request.url = request.url.copy_with(host=self._host, port=self._port)
        return self._inner.handle_request(request)

    def close(self) -> None:
        self._inner.close()


class Connection:
    """A persistent connection to `origin` that follows no redirect, so credentials go nowhere else (HA-91)."""

    def __init__(
        self,
        origin: str,
        *,
        ca: Path | None = None,
        connect_to: str | None = None,
        token: str | None = None,
        timeout_s: float = _TIMEOUT_S,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        if transport is None:
            transport = httpx.HTTPTransport(verify=_trust(ca), trust_env=False)
        if connect_to is not None:
            transport = ConnectTo(transport, connect_to)
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self.origin = origin
        self._http = httpx.Client(transport=transport, timeout=timeout_s, headers=headers, trust_env=False)

    def send(
        self, method: str, url: str, *, content: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """One request to a path of the origin or an absolute URL. Raises `HostUnreachable`."""
        target = self.origin + url if url.startswith("/") else url
        try:
            return self._http.request(method, target, content=content, headers=headers)
        except httpx.TransportError as error:
            reason = str(error) or type(error).__name__
            raise HostUnreachable(f"{method} {target}: {reason}") from error

    def close(self) -> None:
        self._http.close()


def _trust(ca: Path | None) -> ssl.SSLContext | bool:
    if ca is None:
        return True
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise ClientError(f"cannot use the CA file {ca}: {error}") from error


def json_object(response: httpx.Response) -> dict[str, Any]:
    """The body as a JSON object. Raises `UnexpectedAnswer`."""
    try:
        value = response.json()
    except ValueError as error:
        raise UnexpectedAnswer(f"{response.status_code} from {response.url} without a JSON body") from error
    if not isinstance(value, dict):
        raise UnexpectedAnswer(f"{response.status_code} from {response.url} whose body is no JSON object")
    return value
