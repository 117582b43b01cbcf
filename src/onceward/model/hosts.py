"""Addresses taken apart as browsers do it (the WHATWG URL standard), and the hosts in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ada_url import URL


def parsed(text: str) -> URL | None:
    """The address that a browser would see in the text; none where it would see none."""
    from ada_url import URL  # a library of its own, not loaded where no address is looked at

    try:
        return URL(text)
    except ValueError:  # also for a lone surrogate, which is not text
        return None


def plain_host(address: URL) -> str:
    """The host of an address: lower case, IDNA, no port, and without the dot at its end that changes nothing."""
    return address.hostname.lower().rstrip(".")


def host_in(text: str) -> str | None:
    """The host, if the text is an address that has one. Whatever a browser would still open counts as an address."""
    address = parsed(text)
    return (plain_host(address) or None) if address is not None else None
