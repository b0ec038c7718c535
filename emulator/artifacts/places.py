"""Which places artifacts may be fetched from: public https, and the operator's list (WB-06). Pure; opens nothing."""

import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from host.model.urls import is_https_url

HTTPS_PORT = 443
_NUMBER = re.compile(r"(?:[0-9]+|0[xX][0-9a-fA-F]*)")
_CLOSED_V4 = tuple(
    ipaddress.IPv4Network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "168.63.129.16/32",  # a public address, and the metadata service of one cloud
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/3",
    )
)
_GLOBAL_V6 = ipaddress.IPv6Network("2000::/3")  # mapped IPv4, NAT64, loopback, link-local, multicast lie outside
_CLOSED_V6 = tuple(
    ipaddress.IPv6Network(text)
    for text in (
        "2001::/23",  # Teredo and other protocols
        "2001:db8::/32",
        "2002::/16",  # 6to4 carries any IPv4 address
        "3fff::/20",
    )
)


class PlaceRefused(ValueError):
    """The place is none that may be asked; `str()` names a rule, never the place (WB-11)."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Host and port of an https origin; `host` is lower-case, an IPv6 address without its brackets."""

    host: str
    port: int = HTTPS_PORT

    @property
    def authority(self) -> str:
        """As a Host header has it."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == HTTPS_PORT else f"{name}:{self.port}"


@dataclass(frozen=True, slots=True)
class Place:
    """An artifact's URL, taken apart: `target` is what the request line names."""

    origin: Origin
    target: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class AllowedOrigin:
    """One entry of the operator's list: it may be private. `token_file` holds a bearer token of the host, which goes
    to this origin alone; `ca_file` is the PEM file of the authority that vouches for it, in place of the usual ones."""

    origin: Origin
    token_file: Path | None = None
    ca_file: Path | None = None


def read_place(url: str) -> Place:
    """Raises `PlaceRefused` for anything but a plain absolute https URL."""
    if not is_https_url(url):
        raise PlaceRefused("the source is not a plain https URL")
    parts = urlsplit(url)
    try:
        port = HTTPS_PORT if parts.port is None else parts.port
    except ValueError:
        raise PlaceRefused("the source has no such port") from None
    if not parts.hostname or port == 0:
        raise PlaceRefused("the source has no host or port to connect to")
    return Place(Origin(parts.hostname, port), parts.path or "/")


def read_origin(text: str) -> Origin:
    """`https://host[:port]` and nothing more. Raises `PlaceRefused`."""
    place = read_place(text)
    if place.target != "/" or text.endswith("/"):
        raise PlaceRefused("an origin is https://HOST[:PORT] without a path")
    return place.origin


def literal_address(host: str) -> str | None:
    """`host` when it is an address in its usual spelling, None when it is a name.

    Raises `PlaceRefused` for numbers in any other spelling: resolvers read decimal, octal and hexadecimal ones.
    """
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        pass
    if ":" in host or _NUMBER.fullmatch(host.rstrip(".").rpartition(".")[2]):
        raise PlaceRefused("the source's host is a number that is no plain IP address")
    return None


def is_public(address: str) -> bool:
    """Whether an IP address is of the public internet and stands for nothing else."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv4Address):
        return not any(found in network for network in _CLOSED_V4)
    return found in _GLOBAL_V6 and not any(found in network for network in _CLOSED_V6)


def check_public(addresses: Sequence[str]) -> None:
    """Every address that a name stands for must be public. Raises `PlaceRefused`."""
    if not addresses:
        raise PlaceRefused("the source's host has no address")
    if not all(map(is_public, addresses)):
        raise PlaceRefused(
            "the source's address is not public: private, loopback, link-local, multicast, reserved and metadata "
            "addresses are asked only when the operator allows their origin"
        )


def find_allowed(allowed: Iterable[AllowedOrigin], origin: Origin) -> AllowedOrigin | None:
    """The entry for exactly this origin."""
    return next((entry for entry in allowed if entry.origin == origin), None)
