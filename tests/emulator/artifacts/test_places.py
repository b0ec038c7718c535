"""Which places may be asked, as a table."""

import pytest

from emulator.artifacts.places import (
    Origin,
    PlaceRefused,
    check_public,
    is_public,
    literal_address,
    read_origin,
    read_place,
)

CLOSED = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.0.1",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.0.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.7",
    "203.0.113.7",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:7f00:1",
    "::ffff:8.8.8.8",
    "::127.0.0.1",
    "64:ff9b::127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:0:7f00:1::",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:a00:1::1",
    "3fff::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    "4000::1",
]
PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.1",
    "100.63.255.255",
    "100.128.0.1",
    "172.15.0.1",
    "172.32.0.1",
    "223.255.255.255",
]


@pytest.mark.req("WB-06")
@pytest.mark.parametrize("address", CLOSED)
def test_an_address_that_is_not_public_is_refused(address: str) -> None:
    assert not is_public(address)


@pytest.mark.req("WB-06")
@pytest.mark.parametrize("address", [*PUBLIC, "2606:4700:4700::1111", "2a00:1450::1", "2001:200::1"])
def test_a_public_address_may_be_asked(address: str) -> None:
    assert is_public(address)


@pytest.mark.req("WB-06")
def test_one_private_address_among_public_ones_refuses_the_name() -> None:
    check_public(["8.8.8.8"])
    for addresses in (["8.8.8.8", "127.0.0.1"], ["nonsense"], []):
        with pytest.raises(PlaceRefused):
            check_public(addresses)


@pytest.mark.req("WB-06")
@pytest.mark.parametrize(
    "host",
    [
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "017700000001",
        "0177.0.0.1",
        "127.1",
        "127.0.1",
        "1.2.3.4.5",
        "0x",
        "127.0.0.1.",
        "a.0x1",
    ],
)
def test_an_address_in_an_unusual_spelling_is_refused_before_it_is_resolved(host: str) -> None:
    with pytest.raises(PlaceRefused, match="number"):
        literal_address(host)


@pytest.mark.req("WB-06")
def test_a_name_is_no_address_and_an_address_needs_no_resolver() -> None:
    assert literal_address("files.example") is None
    assert literal_address("8.8.8.8") == "8.8.8.8"
    assert literal_address("2606:4700::1111") == "2606:4700::1111"


@pytest.mark.req("WB-01", "WB-06")
@pytest.mark.parametrize(
    "url",
    [
        "http://files.example/a", "https://user@files.example/a", "https://user:word@files.example/a",
        "https://files.example@127.0.0.1/a", "https://files.example/a?b", "https://files.example/a#b",
        "https://files.example\\@127.0.0.1/", "https://fi les.example/", "https:///a", "//files.example/a",
        "https://files.example:0/a", "https://files.example:70000/", "ftp://files.example/a", "https://[fe80::1%25eth0]/",
    ],
)  # fmt: skip
def test_a_url_of_another_form_is_no_place(url: str) -> None:
    with pytest.raises(PlaceRefused):
        read_place(url)


def test_an_origin_is_host_and_port_alone() -> None:
    assert read_origin("https://Files.Example") == Origin("files.example", 443)
    assert read_origin("https://[::1]:8443") == Origin("::1", 8443)
    assert read_origin("https://[::1]:8443").authority == "[::1]:8443"
    for text in ("https://files.example/", "https://files.example/a", "http://files.example"):
        with pytest.raises(PlaceRefused):
            read_origin(text)
