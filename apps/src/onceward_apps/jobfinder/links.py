"""Links as pages have them: relative, broken, or not for fetching."""

from __future__ import annotations

from urllib.parse import urljoin, urlsplit


def absolute(base: str, link: str | None) -> str | None:
    """The address that a link on a page leads to; None unless it is one of http or https."""
    if not link:
        return None
    try:
        url = urljoin(base, link.strip())
        parts = urlsplit(url)
        return url if parts.scheme in ("http", "https") and parts.hostname else None
    except ValueError:
        return None


def host_of(url: str) -> str:
    """The host of an address in lower case; empty if there is none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def same_site(one: str, other: str) -> bool:
    """Whether two addresses have the same host and port."""
    try:
        return urlsplit(one).netloc.lower() == urlsplit(other).netloc.lower()
    except ValueError:
        return False
