"""The one kind of URL this host takes from callers: a plain absolute https URL, compared as text and never mended."""

import re

_HTTPS_URL = re.compile(
    r"""
    [hH][tT][tT][pP][sS]://
    (?: [A-Za-z0-9] [A-Za-z0-9.-]* | \[ [0-9A-Fa-f:.]+ \] )
    (?: : (?P<port> [0-9]{1,5} ) )?
    (?: / (?: [A-Za-z0-9._~!$&'()*+,;=:@/-] | %[0-9A-Fa-f]{2} )* )?
    """,
    re.VERBOSE,
)
_HIGHEST_PORT = 65535


def is_https_url(text: str) -> bool:
    """Whether `text` is ASCII, absolute, https, with a host and without userinfo, query or fragment (HA-06, WB-01)."""
    match = _HTTPS_URL.fullmatch(text)
    return match is not None and int(match["port"] or "0") <= _HIGHEST_PORT
