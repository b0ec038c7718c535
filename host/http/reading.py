"""Reads what a request carries besides its path and body: headers and query, strictly (HA-07, HA-35, HA-50)."""

import re
from collections.abc import Iterable, Mapping

from starlette.datastructures import Headers

from host.http.routes import unescaped
from host.model.errors import CallerError, ErrorCode, invalid_request
from host.model.ids import IDEMPOTENCY_KEY_RULE, is_idempotency_key
from host.model.records import LARGEST_INTEGER

_COUNTER = re.compile(r"0|[1-9][0-9]{0,15}")
_HOST = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")


def check_host(headers: Headers) -> None:
    """Exactly one well-formed Host (A06)."""
    values = headers.getlist("host")
    if len(values) != 1 or _HOST.fullmatch(values[0]) is None:
        raise invalid_request("the Host header is missing, repeated or malformed")


def read_query(raw: bytes, allowed: Iterable[str] = ()) -> Mapping[str, str]:
    """Query parameters; an unknown or repeated one is refused (HA-07)."""
    found: dict[str, str] = {}
    names = set(allowed)
    for pair in raw.split(b"&") if raw else ():
        name, _, value = pair.partition(b"=")
        key = _query_text(name)
        if key not in names:
            raise invalid_request("the query has an unknown parameter")
        if key in found:
            raise invalid_request(f"the query repeats {key}")
        found[key] = _query_text(value)
    return found


def read_idempotency_key(headers: Headers) -> str:
    value = single_header(headers, "idempotency-key")
    if value is None:
        raise invalid_request("the Idempotency-Key header is missing")
    if not is_idempotency_key(value):
        raise invalid_request(f"the Idempotency-Key header is not {IDEMPOTENCY_KEY_RULE}")
    return value


def read_expected_generation(headers: Headers) -> int:
    value = single_header(headers, "takoform-expected-generation")
    if value is None:
        raise CallerError(ErrorCode.EXPECTED_GENERATION_REQUIRED, "the Takoform-Expected-Generation header is missing")
    if _COUNTER.fullmatch(value) is None or int(value) > LARGEST_INTEGER:
        raise invalid_request("the Takoform-Expected-Generation header is not a generation")
    return int(value)


def single_header(headers: Headers, name: str) -> str | None:
    """The header's value; a repeated one is refused."""
    values = headers.getlist(name)
    if len(values) > 1:
        raise invalid_request(f"the {name} header is repeated")
    return values[0] if values else None


def _query_text(data: bytes) -> str:
    try:
        return unescaped(data.replace(b"+", b" ")).decode("utf-8")
    except ValueError:
        raise invalid_request("the query is not escaped UTF-8") from None
