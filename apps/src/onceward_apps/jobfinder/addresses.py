"""Where a fetch may go: addresses of pages, read as browsers read them, and addresses of hosts that are public.

The rules for a page: http or https, no user name or password in it, port 80, 443, 8080 or 8443. The rule for a host:
every address that its name stands for is public; IPv4 inside IPv6 (mapped, 6to4, NAT64) never counts as that.
Loopback is allowed by a switch alone, for tests and the demo, and then on any port.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

import ada_url

from onceward_apps.jobfinder.errors import Refused, RefusedReason

PORTS = frozenset({80, 443, 8080, 8443})
LONGEST_URL = 8_192

_PORT_OF = {"http": 80, "https": 443}

_NOT_PUBLIC_4 = tuple(
    ipaddress.IPv4Network(network)
    for network in (
        "0.0.0.0/8",        # this network
        "10.0.0.0/8",       # private
        "100.64.0.0/10",    # behind a carrier's translation, and some metadata services
        "127.0.0.0/8",      # loopback
        "168.63.129.16/32", # the metadata service of a cloud, on an address that looks public
        "169.254.0.0/16",   # link-local, with the metadata services of most clouds
        "172.16.0.0/12",    # private
        "192.0.0.0/24",     # protocol assignments
        "192.0.2.0/24",     # documentation
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # AMT
        "192.88.99.0/24",   # 6to4 relays
        "192.168.0.0/16",   # private
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",    # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",   # documentation
        "224.0.0.0/4",      # multicast
        "240.0.0.0/4",      # reserved, and broadcast
    )
)  # fmt: skip
_UNICAST_6 = ipaddress.IPv6Network("2000::/3")
"""All that is given out for hosts. Mapped IPv4, NAT64, unique local, link-local and multicast lie outside it."""
_NOT_PUBLIC_6 = tuple(
    ipaddress.IPv6Network(network)
    for network in (
        "2001::/23",        # protocol assignments: Teredo, ORCHID, benchmarks
        "2001:db8::/32",    # documentation
        "2002::/16",        # 6to4: any IPv4 address may be inside
        "2620:4f:8000::/48",  # AS112
        "3fff::/20",        # documentation
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Target:
    """A page's address, read: `href` is its normal form without a fragment."""

    href: str
    scheme: str
    host: str
    port: int
    path: str
    """With its query."""

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        netloc = self.host if self.port == _PORT_OF[self.scheme] else f"{self.host}:{self.port}"
        return f"{self.scheme}://{netloc}"


def target(url: str, *, base: str | None = None) -> Target:
    """The address of a page, read by the rules of the web. Raises Refused."""
    shown = url if len(url) <= 200 else url[:200] + "…"
    if len(url) > LONGEST_URL:
        raise Refused(RefusedReason.BAD_URL, f"{shown}: an address of more than {LONGEST_URL} characters")
    try:
        parsed = ada_url.URL(url, base)
    except (ValueError, UnicodeError) as error:
        raise Refused(RefusedReason.BAD_URL, f"{shown!r} is not an address") from error
    scheme = parsed.protocol.removesuffix(":")
    if scheme not in _PORT_OF:
        raise Refused(RefusedReason.SCHEME, f"{shown!r}: only http and https are fetched")
    if parsed.username or parsed.password:
        raise Refused(RefusedReason.USERINFO, f"an address on {parsed.hostname} has a user name or password in it")
    parsed.hash = ""
    port = int(parsed.port) if parsed.port else _PORT_OF[scheme]
    return Target(parsed.href, scheme, parsed.hostname, port, parsed.pathname + parsed.search)


def is_address(host: str) -> bool:
    """Whether a host is an IP address already."""
    try:
        _parsed(host)
    except ValueError:
        return False
    return True


def is_loopback(address: str) -> bool:
    """Whether an IP address is this machine's own."""
    return _parsed(address).is_loopback


def is_public(address: str) -> bool:
    """Whether an IP address is one of the public internet, by the registries of special addresses."""
    parsed = _parsed(address)
    if isinstance(parsed, ipaddress.IPv4Address):
        return not any(parsed in network for network in _NOT_PUBLIC_4)
    return parsed in _UNICAST_6 and not any(parsed in network for network in _NOT_PUBLIC_6)


def check_addresses(host: str, port: int, addresses: tuple[str, ...], *, allow_loopback: bool) -> None:
    """Raise Refused unless every address of a host may be connected to at that port.

    One bad address refuses them all: a name with a public and a private one is an attempt to get in.
    """
    for address in addresses:
        if allow_loopback and is_loopback(address):
            continue
        if not is_public(address):
            raise Refused(RefusedReason.NOT_PUBLIC, f"{host} is at {address}, which is not a public address")
        check_port(host, port)


def check_port(host: str, port: int) -> None:
    """Raise Refused for a port on which no web pages are."""
    if port not in PORTS:
        named = ", ".join(map(str, sorted(PORTS)))
        raise Refused(RefusedReason.PORT, f"{host}: port {port} is none of {named}")


def _parsed(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    return ipaddress.ip_address(address.partition("%")[0])
