"""Where a fetch may go, and where not."""

from __future__ import annotations

import pytest

from onceward_apps.jobfinder.addresses import check_addresses, is_public, target
from onceward_apps.jobfinder.errors import Refused, RefusedReason

NOT_PUBLIC = [
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.8.9.10", "169.254.169.254",
    "168.63.129.16", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.0.192", "192.0.2.1", "192.88.99.1",
    "192.168.1.1", "198.18.0.1", "198.51.100.7", "203.0.113.9", "224.0.0.1", "239.255.255.250", "240.0.0.1",
    "255.255.255.255", "::", "::1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "64:ff9b::7f00:1",
    "64:ff9b::808:808", "64:ff9b:1::1", "100::1", "2001::1", "2001:2::1", "2001:10::1", "2001:20::1", "2001:db8::1",
    "2002:7f00:1::", "2002:808:808::", "3fff::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0",
    "fec0::1", "ff02::1",
]  # fmt: skip
PUBLIC = ["1.1.1.1", "8.8.8.8", "100.63.0.1", "172.15.0.1", "172.32.0.1", "192.167.1.1", "198.20.0.1", "223.255.0.1",
          "2606:4700::1111", "2a00:1450:4001::8a", "2001:4860:4860::8888", "2400:cb00::1"]  # fmt: skip


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_special_addresses_are_not_public(address: str) -> None:
    assert not is_public(address)
    with pytest.raises(Refused) as refused:
        check_addresses("shop.example", 443, (address,), allow_loopback=False)
    assert refused.value.reason is RefusedReason.NOT_PUBLIC


@pytest.mark.parametrize("address", PUBLIC)
def test_addresses_of_the_internet_are_public(address: str) -> None:
    assert is_public(address)
    check_addresses("shop.example", 443, (address,), allow_loopback=False)


def test_one_private_address_among_public_ones_refuses_them_all() -> None:
    with pytest.raises(Refused):
        check_addresses("shop.example", 443, ("8.8.8.8", "10.0.0.1"), allow_loopback=False)


def test_the_switch_allows_loopback_on_any_port_and_nothing_else() -> None:
    check_addresses("localhost", 5432, ("127.0.0.1", "::1"), allow_loopback=True)
    with pytest.raises(Refused):
        check_addresses("intranet", 80, ("10.0.0.1",), allow_loopback=True)
    with pytest.raises(Refused) as refused:
        check_addresses("shop.example", 5432, ("8.8.8.8",), allow_loopback=True)
    assert refused.value.reason is RefusedReason.PORT


@pytest.mark.parametrize("url", ["http://0x7f.1/", "http://2130706433/", "http://127.1/", "http://127。0。0。1/"])
def test_every_spelling_of_an_address_is_read_as_browsers_read_it(url: str) -> None:
    assert target(url).host == "127.0.0.1"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("file:///etc/passwd", RefusedReason.SCHEME),
        ("ftp://shop.example/", RefusedReason.SCHEME),
        ("javascript:alert(1)", RefusedReason.SCHEME),
        ("data:text/html,x", RefusedReason.SCHEME),
        ("gopher://shop.example/", RefusedReason.SCHEME),
        ("http://me:secret@shop.example/", RefusedReason.USERINFO),
        ("http://shop.example@evil.example/", RefusedReason.USERINFO),
        ("/jobs", RefusedReason.BAD_URL),
        ("http://", RefusedReason.BAD_URL),
        ("http://shop.example:99999/", RefusedReason.BAD_URL),
        ("http://[::1", RefusedReason.BAD_URL),
        ("", RefusedReason.BAD_URL),
        ("http://shop.example/" + "x" * 9_000, RefusedReason.BAD_URL),
        ("http://shop.example/\ud800", RefusedReason.BAD_URL),
    ],
)
def test_what_is_no_page_is_refused_with_its_reason(url: str, reason: RefusedReason) -> None:
    with pytest.raises(Refused) as refused:
        target(url)
    assert refused.value.reason is reason
    assert "secret" not in refused.value.detail


def test_a_fragment_is_no_part_of_what_is_fetched() -> None:
    assert target("https://Shop.Example:443/a/../b#c").href == "https://shop.example/b"
